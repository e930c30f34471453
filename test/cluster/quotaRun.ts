/**
 * Runs clients of one tenant on several ingests until each ingest flags events. Records the responses and the values of the
 * rollup.
 */
import { events, eventually, onto, type TestProject } from '../e2e/builders.ts';
import type { Deployment, Service } from './deployment.ts';

/** A request with a response. The times are values of `performance.now()`. */
export interface SentRequest {
  readonly ingest: Service;
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
  readonly ids: readonly string[];
  /** Value of `overQuota` for each event. */
  readonly flags: readonly boolean[];
}

/** One read of the rollup of the tenant, which has one partition. If there is no row, `used` is 0 and `lastOffset` is -1. */
export interface Reading {
  readonly requestedAtMs: number;
  readonly readAtMs: number;
  readonly used: number;
  readonly lastOffset: number;
}

export interface QuotaRun {
  /** Requests in the order of their responses. */
  readonly sent: readonly SentRequest[];
  /** Reads of the rollup in the order of time. */
  readonly readings: readonly Reading[];
}

const CLIENTS = 9;
const EVENTS_PER_REQUEST = 20;
/** Number of flagged requests per ingest after which the run ends. */
const REQUESTS_PAST_THE_LINE = 20;
const PAST_WITHIN_MS = 180_000;

/** Runs the clients. @throws the error of a client. */
export async function playPastTheLine(
  deployment: Deployment,
  project: TestProject,
  ingests: readonly Service[],
): Promise<QuotaRun> {
  const sent: SentRequest[] = [];
  const readings: Reading[] = [];
  let isEnding = false;

  const play = async (ingest: Service): Promise<void> => {
    const client = onto(project, ingest);
    const body = events(EVENTS_PER_REQUEST, { sessionId: await client.session() });
    while (!isEnding) {
      const sentAtMs = performance.now();
      const answer = await client.post(body);
      const answeredAtMs = performance.now();
      if (answer.status !== 201) throw new Error(`answered ${answer.status}: ${answer.text()}`);
      const created: { id: string; overQuota: boolean }[] = answer.json();
      const ids = created.map(({ id }) => id);
      sent.push({ ingest, sentAtMs, answeredAtMs, ids, flags: created.map(({ overQuota }) => overQuota) });
    }
  };
  const read = async (): Promise<void> => {
    const requestedAtMs = performance.now();
    const [row] = await deployment.sql<{ used: number; lastOffset: number }>(
      `SELECT toUInt32(used) AS used, toUInt32(last_offset) AS lastOffset
       FROM quota_usage_by_partition FINAL WHERE tenant_id = '${project.tenantId}'`,
    );
    const readAtMs = performance.now();
    readings.push({ requestedAtMs, readAtMs, ...(row ?? { used: 0, lastOffset: -1 }) });
  };
  const isPast = (): boolean =>
    ingests.every((ingest) => {
      const flagged = sent.filter((request) => request.ingest === ingest && request.flags.at(0));
      return flagged.length >= REQUESTS_PAST_THE_LINE;
    });

  const clients = Array.from({ length: CLIENTS }, (_, i) => ingests[i % ingests.length]);
  const playing = Promise.all(clients.map((ingest) => ingest && play(ingest)));
  try {
    await Promise.race([playing, eventually(read, () => isEnding || isPast(), PAST_WITHIN_MS)]);
  } finally {
    isEnding = true;
    await playing;
  }
  return { sent, readings };
}
