/** Rows of the campaign: lost and late requests and responses, an unreachable broker, and gateways. */

import type { Ground, OwnEngines, Row, Site } from '../campaign/row.ts';
import type { Random } from '../seeded.ts';
import { type ClickHouseProxy, type InsertFault, startClickHouseProxy } from './clickhouseProxy.ts';
import type { Api } from './kafkaFrames.ts';
import { type KafkaFault, type KafkaProxy, startKafkaProxy } from './kafkaProxy.ts';

/** Percentage of requests that a fault hits. */
const PERCENT_HIT = { least: 2, most: 30 };
const BAD_MS = { least: 3_000, most: 20_000, mostInShort: 4_000 };
const SWALLOWED_MS = { least: 1_000, most: 60_000, mostInShort: 6_000 };
const REFUSED_MS = 600_000;
const REFUSED_IN_SHORT_MS = 30_000;
/** Time limit for a response: an append fails after 16 s, and other requests take time too. */
const ANSWERED_WITHIN_MS = 40_000;

/** Environment with proxies in front of all three brokers and of ClickHouse. */
class ProxiedGround implements Ground {
  readonly engines: OwnEngines['engines'];
  readonly kafka: KafkaProxy;
  readonly clickhouse: ClickHouseProxy;

  constructor(engines: OwnEngines['engines'], kafka: KafkaProxy, clickhouse: ClickHouseProxy) {
    this.engines = { ...engines, brokers: kafka.brokers, clickhouseUrl: clickhouse.url };
    this.kafka = kafka;
    this.clickhouse = clickhouse;
  }

  async end(): Promise<void> {
    this.clickhouse.close();
    await this.kafka.close();
  }
}

const ground = async ({ engines }: OwnEngines): Promise<Ground> =>
  new ProxiedGround(
    engines,
    await startKafkaProxy(engines.brokers),
    await startClickHouseProxy(engines.clickhouseUrl),
  );

export const NETWORK: readonly Row[] = [
  requests(
    'lose-produce',
    'Drops the responses to appends whose records are in the log.',
    'Produce',
    'answerLost',
  ),
  requests(
    'late-produce',
    'Delays each append until its retry was sent over another connection.',
    'Produce',
    'requestLate',
  ),
  requests('lose-commit', 'Drops the responses to commits.', 'OffsetCommit', 'answerLost'),
  requests(
    'late-commit',
    'Delays each commit until a newer commit of the same member was processed.',
    'OffsetCommit',
    'requestLate',
  ),
  requests(
    'lose-txn-commit',
    'Drops the responses to offset commits in transactions.',
    'TxnOffsetCommit',
    'answerLost',
  ),
  requests(
    'lose-end-txn',
    'Drops the responses to requests that commit a transaction.',
    'EndTxn',
    'answerLost',
  ),
  requests(
    'late-end-txn',
    'Delays the request that ends a transaction until a later transaction has started.',
    'EndTxn',
    'requestLate',
  ),
  {
    name: 'swallow-broker',
    does: 'Drops all traffic of one of three brokers for 1 to 60 s.',
    runs: 20,
    ground,
    plant: async (site) => {
      const { engines, random, trial } = site;
      const ports = engines.brokers.split(',').map((address) => Number(address.split(':')[1]));
      const heal = proxies(site).kafka.blackHole(ports[random.between(0, ports.length - 1)] ?? 0);
      const seconds = await lasts(site, SWALLOWED_MS).finally(heal);
      const check = async (): Promise<string[]> => {
        const { slowestMs } = trial.load;
        return slowestMs < ANSWERED_WITHIN_MS ? [] : [`a request was answered after ${slowestMs} ms only`];
      };
      return { counts: { swallowed: 1, seconds }, check };
    },
  },
  inserts('gateway-timeout', 'Answers an insert with 504 while the insert continues.', 'givenUp'),
  inserts('late-insert', 'Answers an insert with 504. The insert completes long after its retry.', 'late'),
  {
    name: 'refuse-clickhouse',
    does: 'Refuses all connections to ClickHouse for ten minutes.',
    runs: 3,
    lastsMs: REFUSED_MS,
    ground,
    plant: async (site) => {
      const refusal = proxies(site).clickhouse.refuse();
      await site.wait(site.isShort ? REFUSED_IN_SHORT_MS : REFUSED_MS);
      refusal.mend();
      return { counts: { 'requests refused': refusal.refused } };
    },
  },
];

function requests(name: string, does: string, api: Api, fault: KafkaFault): Row {
  return {
    name,
    does,
    runs: 15,
    ground,
    plant: async (site) => {
      const plan = proxies(site).kafka.plan({ api, fault, when: hits(site.random) });
      await lasts(site, BAD_MS).finally(() => plan.release());
      return { counts: { [`${api}: ${fault}`]: plan.hits }, check: async () => proves(name, plan.hits) };
    },
  };
}

function inserts(name: string, does: string, fault: InsertFault): Row {
  return {
    name,
    does,
    runs: 25,
    ground,
    plant: async (site) => {
      const plan = proxies(site).clickhouse.plan({ fault, when: hits(site.random) });
      await lasts(site, BAD_MS);
      await plan.release();
      return { counts: { [`inserts ${fault}`]: plan.hits }, check: async () => proves(name, plan.hits) };
    },
  };
}

/** Selects random requests, and always the first. */
function hits(random: Random): (nth: number) => boolean {
  const probability = random.between(PERCENT_HIT.least, PERCENT_HIT.most) / 100;
  return (nth) => nth === 1 || random.chance(probability);
}

async function proves(name: string, hit: number): Promise<string[]> {
  return hit > 0 ? [] : [`${name}: nothing was hit`];
}

/** Keeps the fault for a random time. @returns the seconds */
async function lasts(
  { random, isShort, wait }: Site,
  {
    least,
    most,
    mostInShort,
  }: { readonly least: number; readonly most: number; readonly mostInShort: number },
): Promise<number> {
  const millis = random.between(least, isShort ? mostInShort : most);
  await wait(millis);
  return Math.round(millis / 1_000);
}

function proxies({ ground }: Site): ProxiedGround {
  if (!(ground instanceof ProxiedGround)) throw new Error('the row needs proxies');
  return ground;
}
