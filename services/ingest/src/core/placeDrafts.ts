/** Gives each draft its lane: its session's, or the request's own; a session that does not exist is a problem. Pure. */
import type { ElementProblem } from '@questlog/schemas/http/problem';
import type { Draft, Elements } from '../events/core/envelope.ts';

export interface Placed extends Elements {
  /** Of each draft, beside it. */
  readonly lanes: readonly number[];
}

export function placeDrafts(
  { drafts, problems }: Elements,
  known: ReadonlyMap<string, { readonly lane: number }>,
  own: { readonly lane: number; readonly projectId: string },
): Placed {
  const kept: Draft[] = [];
  const lanes: number[] = [];
  const unknown: ElementProblem[] = [];
  for (const draft of drafts) {
    const session = draft.sessionId === null ? undefined : known.get(draft.sessionId);
    if (draft.sessionId !== null && session === undefined) {
      unknown.push(unknownSession(draft.index, draft.sessionId, own.projectId));
      continue;
    }
    kept.push(draft);
    lanes.push(session?.lane ?? own.lane);
  }
  const all = [...problems, ...unknown].sort((a, b) => a.index - b.index);
  return { drafts: kept, lanes, problems: all };
}

export function unknownSession(index: number, sessionId: string, projectId: string): ElementProblem {
  const detail = `session ${sessionId} does not exist in project ${projectId}`;
  return { index, pointer: '/sessionId', code: 'unknown_session', detail };
}

/** Each once. */
export function sessionsOf(drafts: readonly Draft[]): string[] {
  const ids = new Set<string>();
  for (const { sessionId } of drafts) if (sessionId !== null) ids.add(sessionId);
  return [...ids];
}
