/**
 * When tokens were last used, to the minute. A request only notes it in memory; from there it goes to the directory's topic in
 * passing, for the other ingests and the next start: of each token once in so many minutes, and at a stop.
 */
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Clock } from '@questlog/runtime/process/clock';
import { messageOf } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { settledSoon } from '@questlog/runtime/process/waiting';

export interface TokenUses {
  note(tokenId: string): void;
  /** In milliseconds since the epoch; null: never, as far as this ingest knows. */
  lastUsedAt(tokenId: string): number | null;
  close(): Promise<void>;
}

const MINUTE_MS = 60_000;
/** How far behind what others know of a token may be, where all goes well. */
const TELL_AFTER_MS = 5 * MINUTE_MS;
/** Records that a minute may append; with more tokens in use each is told of less often. */
const MAX_TOLD_AT_ONCE = 200;

export interface TokenUsesDeps {
  readonly directory: Pick<DirectoryHandle, 'current' | 'put'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

export function openTokenUses({ directory, clock, logger }: TokenUsesDeps): TokenUses {
  const { tokens, uses } = directory.current;
  /** Full minutes, of those that the directory may not know of; bounded by its tokens. */
  const noted = new Map<string, number>();
  const tell = async (unlessWithinMs: number): Promise<void> => {
    let left = MAX_TOLD_AT_ONCE;
    for (const [tokenId, usedAt] of noted) {
      const known = uses.get(tokenId)?.usedAt ?? Number.NEGATIVE_INFINITY;
      if (!tokens.has(tokenId) || usedAt <= known) noted.delete(tokenId);
      else if (usedAt - known >= unlessWithinMs && left-- > 0) {
        await directory.put('use', tokenId, { usedAt });
        // Behind those that still wait.
        const latest = noted.get(tokenId) ?? usedAt;
        noted.delete(tokenId);
        if (latest > usedAt) noted.set(tokenId, latest);
      }
    }
  };
  let telling: Promise<void> | undefined;
  const tellOnce = (unlessWithinMs: number): Promise<void> => {
    telling ??= tell(unlessWithinMs)
      .catch((error: unknown) => logger.warn('token_uses_not_told', { cause: messageOf(error) }))
      .finally(() => {
        telling = undefined;
      });
    return telling;
  };
  const timer = setInterval(() => void tellOnce(TELL_AFTER_MS), MINUTE_MS).unref();
  return {
    note: (tokenId) => void noted.set(tokenId, Math.floor(clock.now() / MINUTE_MS) * MINUTE_MS),
    lastUsedAt: (tokenId) => {
      const known = Math.max(noted.get(tokenId) ?? 0, uses.get(tokenId)?.usedAt ?? 0);
      return known === 0 ? null : known;
    },
    close: async () => {
      clearInterval(timer);
      await settledSoon((telling ?? Promise.resolve()).then(() => tellOnce(MINUTE_MS)));
    },
  };
}
