/** Index of dead letters and of operators' decisions about them. Omits the contents of dead letters, which can be large. */

import {
  type NewestFirstPage,
  newestFirstPage,
  type PagePosition,
} from '@questlog/runtime/http/core/newestFirst';
import type { TruncatedRange, TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import { BoundedMap } from '@questlog/runtime/process/boundedMap';
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
  readonly #entries: BoundedMap<string, Entry>;

  constructor(max = MAX_INDEXED_DEAD_LETTERS) {
    this.#entries = new BoundedMap(max);
  }

  put(deadLetter: IndexedDeadLetter): void {
    if (!this.#entries.has(deadLetter.id))
      this.#entries.set(deadLetter.id, { deadLetter, decision: undefined });
  }

  /** Adds an operator's decision to replay or discard a dead letter. Ignores a second decision about the same dead letter. */
  decide(id: string, decision: DeadLetterDecision): void {
    const entry = this.#entries.get(id);
    if (entry !== undefined) entry.decision ??= decision;
  }

  /** Removes the dead letters and decisions at or after the offset, because the log has lost them in a truncation. */
  onTruncated({ partition, offset }: TruncatedRange): void {
    for (const [id, entry] of [...this.#entries]) {
      if (entry.deadLetter.position.partition !== partition) continue;
      if (entry.deadLetter.position.offset >= offset) this.#entries.delete(id);
      else if (entry.decision !== undefined && entry.decision.offset >= offset) entry.decision = undefined;
    }
  }

  expire(starts: readonly number[]): void {
    for (const [id, { deadLetter }] of [...this.#entries]) {
      const { partition, offset } = deadLetter.position;
      if (offset < (starts[partition] ?? 0)) this.#entries.delete(id);
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

  /**
   * Returns the number of dead letters without a decision, by consumer group. Counts unknown groups as `other`, because a dead
   * letter can contain any name, and each name needs a metric.
   */
  openByGroup(): ReadonlyMap<string, number> {
    const counts = new Map([...DEAD_LETTER_GROUPS, 'other'].map((group) => [group, 0]));
    for (const { group: name } of this.open()) {
      const group = counts.has(name) ? name : 'other';
      counts.set(group, (counts.get(group) ?? 0) + 1);
    }
    return counts;
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
