/**
 * `GET /admin/lag`: how far each consumer group is behind the log, as records, as time, and as a share of what the log keeps.
 * What is unprocessed for longer than that is lost. Beside it what else fills up: the disk. However many look, the log is asked once a second.
 */
import { statfs } from 'node:fs/promises';
import type { RouterInstance } from '@koa/router';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { settledWithin } from '@questlog/runtime/process/waiting';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';

export interface ConsumerLag {
  readonly group: string;
  readonly topic: string;
  /** Not processed yet, over all partitions. */
  readonly lagRecords: number;
  /** The age of the oldest of them; null where the log did not tell it in time. */
  readonly lagMs: number | null;
  readonly retentionMs: number;
  /** `lagMs` of `retentionMs`. */
  readonly shareOfRetention: number | null;
  /** Retention removed them before the group had read them. */
  readonly lostRecords: number;
  readonly partitions: readonly { readonly partition: number; readonly lagRecords: number }[];
}

export interface LagAnswer {
  readonly at: string;
  readonly consumers: readonly ConsumerLag[];
  /** Where the data folder lies; null where the process has none. */
  readonly disk: { readonly freeBytes: number; readonly totalBytes: number } | null;
}

interface LagDeps {
  readonly log: Log;
  readonly clock: Clock;
  readonly dataDir: string | undefined;
}

const CONSUMERS = [
  { group: GROUPS.projectEvents, topic: TOPICS.events },
  { group: GROUPS.projectSessions, topic: TOPICS.sessions },
  { group: GROUPS.projectReports, topic: TOPICS.reportLinks },
  { group: GROUPS.projectLinks, topic: TOPICS.linkedEvents },
  { group: GROUPS.link, topic: TOPICS.events },
  { group: GROUPS.link, topic: TOPICS.reportLinks },
];
const KEPT_MS = 1_000;
const READ_WITHIN_MS = 1_000;
/** To read where a group stands costs a few MiB a partition where much lies behind it: then it is done less often. */
const MANY_RECORDS = 1_000;
const REREAD_MANY_MS = 10_000;

export function lagRoute(router: RouterInstance, deps: LagDeps): void {
  const look = lagOf(deps);
  router.get('/admin/lag', async (ctx) => {
    ctx.body = await look();
  });
}

export function lagOf(deps: LagDeps): () => Promise<LagAnswer> {
  const consumers = CONSUMERS.map(({ group, topic }) => new ConsumerOfTopic(deps, group, topic));
  let kept: { readonly atMs: number; readonly answer: Promise<LagAnswer> } | undefined;
  return async () => {
    const nowMs = deps.clock.now();
    if (kept === undefined || nowMs - kept.atMs >= KEPT_MS) {
      const answer = answerOf(deps, consumers, nowMs);
      kept = { atMs: nowMs, answer };
      answer.catch(() => {
        kept = undefined;
      });
    }
    return await kept.answer;
  };
}

async function answerOf(
  { dataDir }: LagDeps,
  consumers: readonly ConsumerOfTopic[],
  nowMs: number,
): Promise<LagAnswer> {
  return {
    at: new Date(nowMs).toISOString(),
    consumers: await Promise.all(consumers.map((consumer) => consumer.lag(nowMs))),
    disk: dataDir === undefined ? null : await diskOf(dataDir),
  };
}

async function diskOf(folder: string): Promise<LagAnswer['disk']> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}

/** Per partition, where a group stands. */
interface Position {
  readonly offset: number;
  readonly end: number;
  readonly lost: number;
}

class ConsumerOfTopic {
  readonly #deps: LagDeps;
  readonly #group: string;
  readonly #topic: string;
  readonly #retentionMs: number;
  /** Per partition, when the record was taken that the group is to read next, as of the last reading. */
  #taken = new Map<number, { readonly offset: number; readonly takenMs: number }>();
  #readMs = Number.NEGATIVE_INFINITY;

  constructor(deps: LagDeps, group: string, topic: string) {
    this.#deps = deps;
    this.#group = group;
    this.#topic = topic;
    this.#retentionMs = retentionOf(topic);
  }

  async lag(nowMs: number): Promise<ConsumerLag> {
    const positions = await this.#positions();
    const partitions = positions.map(({ offset, end }, partition) => ({
      partition,
      lagRecords: end - offset,
    }));
    const lagRecords = sum(partitions.map((partition) => partition.lagRecords));
    const oldestMs = lagRecords === 0 ? nowMs : await this.#oldest(positions, lagRecords, nowMs);
    const lagMs = oldestMs === undefined ? null : Math.max(0, nowMs - oldestMs);
    return {
      ...{ group: this.#group, topic: this.#topic, lagRecords, lagMs },
      retentionMs: this.#retentionMs,
      shareOfRetention: lagMs === null ? null : lagMs / this.#retentionMs,
      lostRecords: sum(positions.map(({ lost }) => lost)),
      partitions,
    };
  }

  async #positions(): Promise<Position[]> {
    const { log } = this.#deps;
    const commits = await log.committed(this.#group, this.#topic);
    // Behind the commits, so that none of them is beyond the end.
    const [starts, ends] = await Promise.all([log.startOffsets(this.#topic), log.endOffsets(this.#topic)]);
    return ends.map((end, partition) => {
      const start = starts[partition] ?? 0;
      const next = commits[partition]?.offset ?? start;
      return { offset: Math.min(Math.max(next, start), end), end, lost: Math.max(0, start - next) };
    });
  }

  /** When the log took the oldest unprocessed record; undefined where that is not known. */
  async #oldest(
    positions: readonly Position[],
    lagRecords: number,
    nowMs: number,
  ): Promise<number | undefined> {
    const behind = new Map(
      positions.flatMap(({ offset, end }, partition) => (offset < end ? [[partition, offset]] : [])),
    );
    const known = new Map([...this.#taken].filter(([partition]) => behind.has(partition)));
    const unknown = new Map(
      [...behind].filter(([partition, offset]) => known.get(partition)?.offset !== offset),
    );
    const isDue = lagRecords <= MANY_RECORDS || nowMs - this.#readMs >= REREAD_MANY_MS;
    if (unknown.size > 0 && isDue) {
      this.#readMs = nowMs;
      const read = await takenAt(this.#deps.log, this.#topic, unknown, positions);
      for (const [partition, takenMs] of read) {
        known.set(partition, { offset: behind.get(partition) ?? 0, takenMs });
      }
    }
    this.#taken = known;
    const times = [...known.values()].map(({ takenMs }) => takenMs);
    return times.length === 0 ? undefined : Math.min(...times);
  }
}

/** Reads one batch of each of these partitions. @returns when the first record there was taken; of some none, if it takes long. */
async function takenAt(
  log: Log,
  topic: string,
  wanted: ReadonlyMap<number, number>,
  positions: readonly Position[],
): Promise<Map<number, number>> {
  const taken = new Map<number, number>();
  const all = Promise.withResolvers<void>();
  const ends = positions.map(({ end }) => end);
  const tail = await log.tail({
    topic,
    from: ends.map((end, partition) => wanted.get(partition) ?? end),
    onBatch: async ({ partition, records: [first] }) => {
      if (first === undefined || !wanted.has(partition)) return;
      taken.set(partition, first.timestampMs);
      if (taken.size === wanted.size) all.resolve();
      // Nothing behind it is read.
      await all.promise;
    },
  });
  const over = Promise.race([all.promise, tail.reached(ends), tail.failed]).catch(() => {});
  await settledWithin(over, READ_WITHIN_MS);
  all.resolve();
  await tail.close();
  return taken;
}

function retentionOf(topic: string): number {
  const cleanup = topicDefinitions(1).find(({ name }) => name === topic)?.cleanup;
  return cleanup?.policy === 'delete' ? cleanup.retentionMs : Number.POSITIVE_INFINITY;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}
