/** Which sessions exist: those of the log's first records (`firstRecords.ts`). */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { type SessionRegistered, sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { coalescedSessionLookup } from '../sessionLookup.ts';
import { type EntityKind, type FirstRecordsDeps, openFirstRecords } from './firstRecords.ts';

export interface Sessions {
  /** The known ones of these sessions of the project. @throws Unavailable when ClickHouse is needed and silent. */
  find(
    tenantId: string,
    projectId: string,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, SessionRegistered>>;
  /**
   * Appends a registration and returns what the log says the session is: this one, or an earlier one.
   * @throws Unavailable also when that is not known in time; the same again is answered as the first.
   */
  register(session: SessionRegistered): Promise<{ winner: SessionRegistered; isOwn: boolean }>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

export async function openSessions(deps: FirstRecordsDeps & { store: Store }): Promise<Sessions> {
  const lookUp = coalescedSessionLookup(deps.store);
  const kind: EntityKind<SessionRegistered, SessionRegistered> = {
    contract: sessionRegistered,
    nameOf: ({ tenantId, projectId, sessionId }) => ({ tenantId, projectId, id: sessionId }),
    entityOf: (session) => session,
    merge: (earlier) => earlier,
    isWhole: () => true,
    weightOf: () => 1,
    lookUp: async (projectId, ids) =>
      new Map((await lookUp(projectId, ids)).map((session) => [session.sessionId, session])),
  };
  const first = await openFirstRecords(deps, kind);
  return { ...first, register: (session) => first.register(session, session) };
}
