/** Parses the flags of the benchmark of hot tenants. */
import { parseArgs } from 'node:util';
import type { ClusterEngines } from '../../e2e/cluster.ts';
import { type Environment, missingParts } from '../../engines/choice.ts';

export interface HotTenantsOptions {
  /** Spreads in the order of measurement. */
  readonly spreads: readonly number[];
  /** Seconds of load for each spread and kind of request. */
  readonly seconds: number;
  /** Sessions that are registered for each spread. */
  readonly sessions: number;
  /** Events of one request. */
  readonly batch: number;
  /** Concurrent requests, each on its own connection. */
  readonly connections: number;
  readonly projectors: number;
  readonly partitions: number;
}

/** Default spreads. The first spread is repeated at the end, which shows the noise. */
const SPREADS = '1,2,4,8,1';
const MAX_BATCH = 500;

export function hotTenantsOptions(args: readonly string[]): HotTenantsOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      spreads: { type: 'string', default: SPREADS },
      seconds: { type: 'string', default: '10' },
      sessions: { type: 'string', default: '1000' },
      batch: { type: 'string', default: '100' },
      connections: { type: 'string', default: '16' },
      projectors: { type: 'string', default: '2' },
      partitions: { type: 'string', default: '8' },
    },
  });
  const options = {
    spreads: values.spreads.split(',').map((spread) => wholeNumber('spreads', spread)),
    seconds: wholeNumber('seconds', values.seconds),
    sessions: wholeNumber('sessions', values.sessions),
    batch: wholeNumber('batch', values.batch),
    connections: wholeNumber('connections', values.connections),
    projectors: wholeNumber('projectors', values.projectors),
    partitions: wholeNumber('partitions', values.partitions),
  };
  if (options.batch > MAX_BATCH) throw new Error(`--batch: at most ${MAX_BATCH}, the contract's cap`);
  return options;
}

/** @throws Error that tells how to set a missing engine. */
export function givenEngines(env: Environment): ClusterEngines {
  const missing = missingParts(env);
  if (missing.length > 0) {
    throw new Error(
      `${missing.join(', ')} not given. Where there is no Kafka yet: env $(npm run -s stack -- up --brokers 3) npm run bench:hot-tenants`,
    );
  }
  return {
    brokers: env['KAFKA_BROKERS'] ?? '',
    registryUrl: env['SCHEMA_REGISTRY_URL'] ?? '',
    clickhouseUrl: env['CLICKHOUSE_URL'] ?? '',
  };
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`--${name}: a whole number above 0`);
}
