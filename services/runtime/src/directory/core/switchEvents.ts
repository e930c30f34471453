/** Applies the switches of a project to the events of a request. A switch rejects events or stores only a sample. */
import { hash } from 'node:crypto';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import type { Switch } from '@questlog/schemas/topics/directoryEntry';

export interface Switchable {
  readonly index: number;
  readonly eventType: string;
  readonly buildId: string | null;
  readonly sessionId: string | null;
  /** Hash of the session's player (`playerNumber`). Undefined if the event has no session. */
  readonly player?: number | undefined;
}

export interface SwitchResult<T> {
  readonly kept: readonly (T & { readonly sampleRate?: number })[];
  readonly sampledOut: readonly T[];
  readonly rejectedElements: readonly ElementProblem[];
}

export interface SwitchContext {
  readonly nowMs: number;
  /** Sampling uses this text if an event has no session. Contains the idempotency key of the request, or a random text. */
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
      const detail = `an operator has switched these events off: ${found.reason}`;
      rejectedElements.push({ index, pointer: '', code: 'switched_off', detail });
    } else {
      const sampleRate = found.sampleRate ?? 1;
      // The prefix `sample/` makes this hash independent of the hash in `playerNumber`.
      const isKept = fractionOf(`sample/${draft.sessionId ?? `${fallbackKey}/${index}`}`) < sampleRate;
      if (isKept) kept.push({ ...draft, sampleRate });
      else sampledOut.push(draft);
    }
  }
  return { kept, sampledOut, rejectedElements };
}

export function activeSwitches(switches: readonly Switch[] | undefined, nowMs: number): readonly Switch[] {
  return (switches ?? []).filter(({ until }) => until === null || until > nowMs);
}

export function playerNumber(player: string | null, sessionId: string): number {
  return hash32(`player/${player ?? sessionId}`);
}

/** True if the switch applies to the event. */
export function matches(
  { eventType, buildId, playerShare }: Switch,
  draft: Omit<Switchable, 'sessionId'>,
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
