/** Index of dead letters and of operators' decisions about them. Omits the contents of dead letters, which can be large. */

import {
  type NewestFirstPage,
  newestFirstPage,
  type PagePosition,
} from '@questlog/runtime/http/core/newestFirst';
import type { TruncatedRange, TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import type { DeadLetterState, ListedDeadLetter } from '@questlog/schemas/http/deadLetter';
import { DEAD_LETTER_GROUPS } from '@questlog/schemas/topics/topics';

export interface IndexedDeadLetter extends Omit<ListedDeadLetter, 'state' | 'deadAt' | 'decidedAt'> {
  readonly deadAtMs: number;
  readonly position: { readonly partition: number; readonly offset: number };
}

export interface DeadLetterDecision {
  readonly state: Exclude<DeadLetterState, 'open'>;
  readonly atMs: number;
  readonly offset: number;
}

export interface DeadLetterFilters {
  readonly state: DeadLetterState;
  readonly group: string | undefined;
  readonly topic: string | undefined;
  readonly cause: string | undefined;
  /** Inclusive start of the requested time range, in milliseconds since the epoch. The end `toMs` is exclusive. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
}

interface Entry {
  readonly deadLetter: IndexedDeadLetter;
  decision: DeadLetterDecision | undefined;
}

/** Maximum number of dead letters in memory. Each dead letter needs less than 1 KiB. */
export const MAX_INDEXED_DEAD_LETTERS = 50_000;

export class DeadLetterIndex implements TruncationParticipant {
  /** Dead letters by id. If two dead letters have the same id, the map contains the older dead letter. */
  readonly #entries = new Map<string, Entry>();
  readonly #openByGroup = new Map<string, number>();
  readonly #max: number;

  constructor(max = MAX_INDEXED_DEAD_LETTERS) {
    this.#max = max;
  }

  put(deadLetter: IndexedDeadLetter): void {
    if (this.#entries.has(deadLetter.id)) return;
    this.#entries.set(deadLetter.id, { deadLetter, decision: undefined });
    this.#addOpen(deadLetter.group, 1);
    const [oldest] = this.#entries.values();
    if (this.#entries.size > this.#max && oldest !== undefined) this.#remove(oldest);
  }

  /** Adds an operator's decision to replay or discard a dead letter. Ignores a second decision about the same dead letter. */
  decide(id: string, decision: DeadLetterDecision): void {
    const entry = this.#entries.get(id);
    if (entry === undefined || entry.decision !== undefined) return;
    entry.decision = decision;
    this.#addOpen(entry.deadLetter.group, -1);
  }

  /** Removes the dead letters and decisions at or after the offset, because the log has lost them in a truncation. */
  onTruncated({ partition, offset }: TruncatedRange): void {
    for (const entry of [...this.#entries.values()]) {
      if (entry.deadLetter.position.partition !== partition) continue;
      if (entry.deadLetter.position.offset >= offset) this.#remove(entry);
      else if (entry.decision !== undefined && entry.decision.offset >= offset) {
        entry.decision = undefined;
        this.#addOpen(entry.deadLetter.group, 1);
      }
    }
  }

  expire(starts: readonly number[]): void {
    for (const entry of [...this.#entries.values()]) {
      const { partition, offset } = entry.deadLetter.position;
      if (offset < (starts[partition] ?? 0)) this.#remove(entry);
    }
  }

  find(id: string): Readonly<Entry> | undefined {
    return this.#entries.get(id);
  }

  ofTopic(topic: string): IndexedDeadLetter[] {
    return [...this.#entries.values()]
      .map(({ deadLetter }) => deadLetter)
      .filter((one) => one.topic === topic);
  }

  open(): IndexedDeadLetter[] {
    const open = [...this.#entries.values()].filter(({ decision }) => decision === undefined);
    return open.map(({ deadLetter }) => deadLetter);
  }

  get openByGroup(): ReadonlyMap<string, number> {
    return this.#openByGroup;
  }

  page(
    filters: DeadLetterFilters,
    page: NewestFirstPage,
  ): { rows: readonly ListedDeadLetter[]; next: string | null } {
    const { state, group, topic, cause, fromMs = 0, toMs = Number.POSITIVE_INFINITY } = filters;
    const isWanted = ({ deadLetter, decision }: Entry): boolean =>
      (decision?.state ?? 'open') === state &&
      (group === undefined || deadLetter.group === group) &&
      (topic === undefined || deadLetter.topic === topic) &&
      (cause === undefined || deadLetter.reason.includes(cause)) &&
      deadLetter.deadAtMs >= fromMs &&
      deadLetter.deadAtMs < toMs &&
      isBefore(deadLetter, page.before);
    const matching = [...this.#entries.values()].filter(isWanted);
    matching.sort((one, other) => (isBefore(one.deadLetter, cursorOf(other.deadLetter)) ? 1 : -1));
    const { rows, next } = newestFirstPage(matching, page, ({ deadLetter }) => cursorOf(deadLetter));
    return { rows: rows.map(listedDeadLetter), next };
  }

  #remove({ deadLetter, decision }: Entry): void {
    this.#entries.delete(deadLetter.id);
    if (decision === undefined) this.#addOpen(deadLetter.group, -1);
  }

  /** Counts unknown consumer groups as `other`, because a dead letter can contain any name, and each name needs a metric. */
  #addOpen(name: string, change: number): void {
    const group = DEAD_LETTER_GROUPS.includes(name) ? name : 'other';
    this.#openByGroup.set(group, (this.#openByGroup.get(group) ?? 0) + change);
  }
}

export function listedDeadLetter({ deadLetter, decision }: Readonly<Entry>): ListedDeadLetter {
  const { deadAtMs, position: _, id, ...rest } = deadLetter;
  const deadAt = new Date(deadAtMs).toISOString();
  const decidedAt = decision === undefined ? null : new Date(decision.atMs).toISOString();
  return { id, state: decision?.state ?? 'open', deadAt, decidedAt, ...rest };
}

function cursorOf({ deadAtMs, id }: IndexedDeadLetter): PagePosition {
  return { millis: String(deadAtMs), id };
}

function isBefore({ deadAtMs, id }: IndexedDeadLetter, cursor: PagePosition): boolean {
  const millis = Number(cursor.millis);
  return deadAtMs < millis || (deadAtMs === millis && id < cursor.id);
}
