/** Which of a request's events the project's switches refuse, sample out, or keep as a sample. Pure. */
import { hash } from 'node:crypto';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import type { Switch } from '@questlog/schemas/topics/directoryEntry';

/** What is asked of an event. */
export interface Switchable {
  readonly index: number;
  readonly eventType: string;
  readonly buildId: string | null;
  readonly sessionId: string | null;
  /** Of its session's player, as `playerNumber` has it; undefined: it has no session. */
  readonly player?: number | undefined;
}

export interface SwitchResult<T> {
  /** Those that are to be stored, with the rate where they are a sample. */
  readonly kept: readonly (T & { readonly sampleRate?: number })[];
  /** Answered like the others, and not stored. */
  readonly sampledOut: readonly T[];
  readonly rejectedElements: readonly ElementProblem[];
}

export interface SwitchContext {
  readonly nowMs: number;
  /** Decides for events without a session: the key of a request, so that its repeat fares alike, or else by chance. */
  readonly fallbackKey: string;
}

export function switchEvents<T extends Switchable>(
  switches: readonly Switch[] | undefined,
  drafts: readonly T[],
  { nowMs, fallbackKey }: SwitchContext,
): SwitchResult<T> {
  const active = activeSwitches(switches, nowMs);
  if (active.length === 0) return { kept: drafts, sampledOut: [], rejectedElements: [] };
  const kept: (T & { readonly sampleRate?: number })[] = [];
  const sampledOut: T[] = [];
  const rejectedElements: ElementProblem[] = [];
  for (const draft of drafts) {
    const { index } = draft;
    const found = active.find((one) => matches(one, draft, fallbackKey));
    if (found === undefined) kept.push(draft);
    else if (found.action === 'reject') {
      const detail = `an operator has switched such events off: ${found.reason}`;
      rejectedElements.push({ index, pointer: '', code: 'switched_off', detail });
    } else {
      const sampleRate = found.sampleRate ?? 1;
      // Another salt than of players: of a session without a player the one would tell of the other.
      const isKept = fractionOf(`sample/${draft.sessionId ?? `${fallbackKey}/${index}`}`) < sampleRate;
      if (isKept) kept.push({ ...draft, sampleRate });
      else sampledOut.push(draft);
    }
  }
  return { kept, sampledOut, rejectedElements };
}

/** Those that have not ended. */
export function activeSwitches(switches: readonly Switch[] | undefined, nowMs: number): readonly Switch[] {
  return (switches ?? []).filter(({ until }) => until === null || until > nowMs);
}

/** A number of 32 bits for each player; of a session without one, for the session. */
export function playerNumber(player: string | null, sessionId: string): number {
  return hash32(`player/${player ?? sessionId}`);
}

function matches(
  { eventType, buildId, playerShare }: Switch,
  draft: Switchable,
  fallbackKey: string,
): boolean {
  if (eventType !== null && eventType !== draft.eventType) return false;
  if (buildId !== null && buildId !== draft.buildId) return false;
  if (playerShare === null) return true;
  return (draft.player ?? hash32(`player/${fallbackKey}/${draft.index}`)) / 2 ** 32 < playerShare;
}

function fractionOf(text: string): number {
  return hash32(text) / 2 ** 32;
}

function hash32(text: string): number {
  return hash('sha256', text, 'buffer').readUInt32LE(0);
}
