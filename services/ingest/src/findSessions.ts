/** The sessions that a request names; one that is refused anyway is refused for what is known, also while ClickHouse is silent. */
import type { Principal } from '@questlog/runtime/directory/directory';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import type { Sessions } from './known/sessions.ts';
import type { Rejected } from './rejected.ts';

const NONE: ReadonlyMap<string, SessionRegistered> = new Map();

/** @param refusal what the request is refused with, whatever the sessions are. */
export async function findSessions(
  sessions: Sessions,
  { tenant, project }: Principal,
  ids: readonly string[],
  refusal: (() => Rejected) | undefined,
): Promise<ReadonlyMap<string, SessionRegistered>> {
  if (ids.length === 0) return NONE;
  try {
    return await sessions.find(tenant.id, project.id, ids);
  } catch (error) {
    if (error instanceof Unavailable && refusal !== undefined) throw refusal();
    throw error;
  }
}
