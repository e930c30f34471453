/** Limits the execution time of each studio's account per hour, as ClickHouse's quota does for an account on a server. */
import { exceptions } from '../http/httpErrors.ts';

export interface StudioQuota {
  /**
   * Runs a statement and adds the duration of the statement to the execution time of the account. A statement that exceeds the limit
   * while it runs is not stopped.
   * @throws ClickHouseException if the account has used all of its execution time in the current hour
   */
  run<T>(username: string, statement: () => Promise<T>): Promise<T>;
}

export function createStudioQuota(maxSeconds: number, now: () => number = Date.now): StudioQuota {
  const usedMs = new Map<string, number>();
  let hour = 0;

  /** Returns the execution time of the account in the current hour. When a new hour starts, deletes the times of all accounts. */
  function usedBy(username: string): number {
    const current = Math.floor(now() / HOUR_MS);
    if (current !== hour) usedMs.clear();
    hour = current;
    return usedMs.get(username) ?? 0;
  }

  async function run<T>(username: string, statement: () => Promise<T>): Promise<T> {
    const usedSeconds = usedBy(username) / 1000;
    if (usedSeconds >= maxSeconds) {
      const end = new Date((hour + 1) * HOUR_MS).toISOString().slice(0, 'YYYY-MM-DDTHH:MM:SS'.length);
      throw exceptions.quotaExceeded(
        `Quota for user \`${username}\` for 3600s has been exceeded: execution_time = ${usedSeconds}/${maxSeconds}. Interval will end at ${end.replace('T', ' ')}.`,
      );
    }
    const beganAt = now();
    try {
      return await statement();
    } finally {
      usedMs.set(username, usedBy(username) + now() - beganAt);
    }
  }

  return { run };
}

const HOUR_MS = 3_600_000;
