/**
 * Returns the free disk space, and the lag of each consumer group in records, in time, and as a fraction of
 * the log's retention time. If this fraction exceeds 1, the log can delete unprocessed records.
 */
import { statfs } from 'node:fs/promises';
import { type GroupLag, groupLags } from '@questlog/runtime/consumer/groupLag';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import type { LagOutput } from '@questlog/schemas/http/health';

interface LagDependencies {
  readonly log: Log;
  readonly clock: Clock;
  readonly dataDir: string | undefined;
}

const CACHE_MS = 1_000;

/** Response of `getLag` without the field `projection`. The caller adds this field from the measurements of the last day. */
type Lag = Omit<LagOutput, 'projection'>;

export function lagReader(deps: LagDependencies): () => Promise<Lag> {
  const consumers = groupLags(deps);
  let cached: { readonly atMs: number; readonly answer: Promise<Lag> } | undefined;
  return async () => {
    const nowMs = deps.clock.now();
    if (cached === undefined || Math.abs(nowMs - cached.atMs) >= CACHE_MS) {
      const answer = answerOf(deps, consumers, nowMs);
      cached = { atMs: nowMs, answer };
      answer.catch(() => {
        cached = undefined;
      });
    }
    return await cached.answer;
  };
}

async function answerOf(
  { dataDir }: LagDependencies,
  consumers: readonly GroupLag[],
  nowMs: number,
): Promise<Lag> {
  return {
    at: new Date(nowMs).toISOString(),
    consumers: await Promise.all(consumers.map((consumer) => consumer.measure(nowMs))),
    disk: dataDir === undefined ? null : await diskOf(dataDir),
  };
}

async function diskOf(folder: string): Promise<LagOutput['disk']> {
  const { bavail, blocks, bsize } = await statfs(folder);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}
