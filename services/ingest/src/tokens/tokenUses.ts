/** Records the minute in which each token was last used. All ingest processes share the minutes through the directory topic. */
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Clock } from '@questlog/runtime/process/clock';
import { messageOf } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { settledSoon } from '@questlog/runtime/process/waiting';

export interface TokenUses {
  note(tokenId: string): void;
  close(): Promise<void>;
}

const MINUTE_MS = 60_000;
const WRITE_EVERY_MS = 1_000;
/** Maximum number of token uses that are written per minute. Tokens that have waited longest are written first. */
export const MAX_WRITES_PER_MINUTE = 1_000;
const APPENDS_PER_BATCH = 50;

export function openTokenUses(
  directory: Pick<DirectoryHandle, 'current' | 'put'>,
  clock: Clock,
  logger: Logger,
): TokenUses {
  const { tokens, uses } = directory.current;
  const noted = new Map<string, number>();
  const thisMinute = (): number => Math.floor(clock.now() / MINUTE_MS) * MINUTE_MS;
  const written = { minute: 0, count: 0 };
  const nextBatch = (limit: number): [tokenId: string, usedAt: number][] => {
    const batch: [string, number][] = [];
    for (const [tokenId, usedAt] of noted) {
      if (batch.length >= Math.min(limit, APPENDS_PER_BATCH)) break;
      const known = uses.get(tokenId)?.usedAt ?? Number.NEGATIVE_INFINITY;
      if (tokens.has(tokenId) && usedAt > known) batch.push([tokenId, usedAt]);
      else noted.delete(tokenId);
    }
    return batch;
  };
  const put = async ([tokenId, usedAt]: [string, number]): Promise<void> => {
    await directory.put('use', tokenId, { usedAt });
    // Moves the token to the end of the map, because the tokens at the start have waited longest for a write.
    const latest = noted.get(tokenId) ?? usedAt;
    noted.delete(tokenId);
    if (latest > usedAt) noted.set(tokenId, latest);
  };
  const write = async (): Promise<void> => {
    const minute = thisMinute();
    if (written.minute !== minute) Object.assign(written, { minute, count: 0 });
    for (;;) {
      const batch = nextBatch(MAX_WRITES_PER_MINUTE - written.count);
      if (batch.length === 0) return;
      written.count += batch.length;
      await Promise.all(batch.map(put));
    }
  };
  let writing: Promise<void> | undefined;
  const writeOnce = (): Promise<void> => {
    writing ??= write()
      .catch((error: unknown) => logger.warn('token_uses_not_told', { cause: messageOf(error) }))
      .finally(() => {
        writing = undefined;
      });
    return writing;
  };
  const timer = setInterval(() => void writeOnce(), WRITE_EVERY_MS).unref();
  return {
    note: (tokenId) => void noted.set(tokenId, thisMinute()),
    close: async () => {
      clearInterval(timer);
      await settledSoon((writing ?? Promise.resolve()).then(writeOnce));
    },
  };
}
