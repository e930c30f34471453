/** A start waits for ClickHouse, which may be starting too; what is wrong with the settings is told by the first query. */
import { connect } from 'node:net';
import { messageOf, Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { untilAvailable } from '../process/waiting.ts';

/** As for the schema registry. */
const PATIENCE_MS = 30_000;
const ANSWER_LIMIT_MS = 3_000;

/**
 * Returns when something listens at the address.
 * @throws Unavailable after 30 s, with the last cause.
 */
export async function reachClickHouse(
  address: string,
  logger: Logger,
  patienceMs = PATIENCE_MS,
): Promise<void> {
  await untilAvailable(() => connected(new URL(address)), {
    signal: AbortSignal.timeout(patienceMs),
    onDelay: ({ message }, backoffMs) => logger.warn('clickhouse_awaited', { backoffMs, cause: message }),
  });
}

function connected({ protocol, hostname, port }: URL): Promise<void> {
  const where = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || DEFAULT_PORTS[protocol]) };
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown): void => {
      reject(new Unavailable(`ClickHouse does not answer: ${messageOf(cause)}`, { cause }));
    };
    const socket = connect({ ...where, timeout: ANSWER_LIMIT_MS });
    socket.once('connect', resolve);
    socket.once('error', fail);
    socket.once('timeout', () => fail(new Error(`no connection within ${ANSWER_LIMIT_MS / 1_000} s`)));
    for (const end of ['connect', 'timeout']) socket.once(end, () => socket.destroy());
  });
}

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };
