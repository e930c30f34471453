/** Waits for ClickHouse during a start and rejects unsupported versions. */
import { connect } from 'node:net';
import { messageOf, StartRefused, Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { retry } from '../process/waiting.ts';
import type { Store } from './store.ts';

const START_TIMEOUT_MS = 30_000;
const CONNECT_TIMEOUT_MS = 3_000;

/** Waits until a server listens at the address. @throws Unavailable after 30 s. */
export async function waitForClickHouse(
  address: string,
  logger: Logger,
  timeoutMs = START_TIMEOUT_MS,
): Promise<void> {
  await retry(() => connected(new URL(address)), {
    signal: AbortSignal.timeout(timeoutMs),
    onDelay: ({ message }, backoffMs) => logger.warn('clickhouse_awaited', { backoffMs, cause: message }),
  });
}

function connected({ protocol, hostname, port }: URL): Promise<void> {
  const where = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || DEFAULT_PORTS[protocol]) };
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown): void => {
      reject(new Unavailable(`ClickHouse does not answer: ${messageOf(cause)}`, { cause }));
    };
    const socket = connect({ ...where, timeout: CONNECT_TIMEOUT_MS });
    socket.once('connect', resolve);
    socket.once('error', fail);
    socket.once('timeout', () => fail(new Error(`no connection within ${CONNECT_TIMEOUT_MS / 1_000} s`)));
    for (const end of ['connect', 'timeout']) socket.once(end, () => socket.destroy());
  });
}

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };

/**
 * Lowest supported versions. Version 24.8 supports all tables, and version 23.10 rejects a migration (tested). An insert into a
 * cluster is an `INSERT … SELECT`, and versions before 26.3 can store this insert twice although it has a deduplication token
 * (ClickHouse/ClickHouse#99115).
 */
const MIN_VERSIONS = { 'single server': '24.8', cluster: '26.3' } as const;

export async function requireSupportedClickHouse(
  store: Pick<Store, 'query'>,
  use: keyof typeof MIN_VERSIONS = 'single server',
): Promise<void> {
  const [row] = await store.query<{ version: string }>('SELECT version() AS version');
  const version = row?.version ?? '';
  const minimum = MIN_VERSIONS[use];
  if (!isOlderVersion(version, minimum)) return;
  throw new StartRefused(`ClickHouse ${version} is too old: Questlog needs ${minimum} or newer for a ${use}`);
}

/** Compares the numbers of two versions, up to the last number of `minimum`. */
export function isOlderVersion(version: string, minimum: string): boolean {
  const [numbers, minimums] = [version, minimum].map((text) => text.split('.').map(Number)) as [
    number[],
    number[],
  ];
  const at = minimums.findIndex((number, index) => number !== (numbers[index] ?? 0));
  return at >= 0 && (numbers[at] ?? 0) < (minimums[at] ?? 0);
}
