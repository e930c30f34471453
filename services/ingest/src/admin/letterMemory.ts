/** The dead letters that a process knows of, and what was decided about each. No values: those may be megabytes. */
import type { LetterState, ListedLetter } from '@questlog/schemas/http/letter';
import { LETTER_GROUPS } from '@questlog/schemas/topics/topics';
import { type NewestFirstPage, newestFirstOf, type Place } from '../core/newestFirst.ts';

export interface KnownLetter extends Omit<ListedLetter, 'state' | 'deadAt' | 'decidedAt'> {
  readonly deadAtMs: number;
  /** Where the letter itself stands. */
  readonly place: { readonly partition: number; readonly offset: number };
}

export interface LetterDecision {
  readonly state: Exclude<LetterState, 'open'>;
  readonly atMs: number;
  /** In the partition of its letter. */
  readonly offset: number;
}

export interface LetterFilters {
  readonly state: LetterState;
  readonly group: string | undefined;
  readonly topic: string | undefined;
  /** A part of the reason. */
  readonly cause: string | undefined;
  /** Milliseconds since the epoch; the second is the first that is not wanted. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
}

interface Entry {
  readonly letter: KnownLetter;
  decision: LetterDecision | undefined;
}

/** Under 1 KiB each. */
export const MAX_LETTERS_KNOWN = 50_000;

export class LetterMemory {
  /** In the order in which they were read; of two of an id the first counts. */
  readonly #entries = new Map<string, Entry>();
  readonly #openOf = new Map<string, number>();
  readonly #max: number;

  constructor(max = MAX_LETTERS_KNOWN) {
    this.#max = max;
  }

  put(letter: KnownLetter): void {
    if (this.#entries.has(letter.id)) return;
    this.#entries.set(letter.id, { letter, decision: undefined });
    this.#count(letter.group, 1);
    const [oldest] = this.#entries.values();
    if (this.#entries.size > this.#max && oldest !== undefined) this.#remove(oldest);
  }

  /** The first decision about a letter counts; one about a letter that is not known is passed over. */
  decide(id: string, decision: LetterDecision): void {
    const entry = this.#entries.get(id);
    if (entry === undefined || entry.decision !== undefined) return;
    entry.decision = decision;
    this.#count(entry.letter.group, -1);
  }

  /** The log has no longer what was read of the partition from the offset on. */
  cut(partition: number, offset: number): void {
    for (const entry of [...this.#entries.values()]) {
      if (entry.letter.place.partition !== partition) continue;
      if (entry.letter.place.offset >= offset) this.#remove(entry);
      else if (entry.decision !== undefined && entry.decision.offset >= offset) {
        entry.decision = undefined;
        this.#count(entry.letter.group, 1);
      }
    }
  }

  /** Retention has taken what is below these offsets, one a partition. */
  expire(starts: readonly number[]): void {
    for (const entry of [...this.#entries.values()]) {
      const { partition, offset } = entry.letter.place;
      if (offset < (starts[partition] ?? 0)) this.#remove(entry);
    }
  }

  find(id: string): Readonly<Entry> | undefined {
    return this.#entries.get(id);
  }

  /** Dead letters of one topic, including replayed and discarded ones. */
  ofTopic(topic: string): KnownLetter[] {
    return [...this.#entries.values()].map(({ letter }) => letter).filter((one) => one.topic === topic);
  }

  /** Those that wait for a decision. */
  open(): KnownLetter[] {
    const open = [...this.#entries.values()].filter(({ decision }) => decision === undefined);
    return open.map(({ letter }) => letter);
  }

  /** How many are open, of each of Questlog's groups that ever had one, and as `other` of those that letters made up. */
  get openOf(): ReadonlyMap<string, number> {
    return this.#openOf;
  }

  page(
    filters: LetterFilters,
    page: NewestFirstPage,
  ): { rows: readonly ListedLetter[]; next: string | null } {
    const { state, group, topic, cause, fromMs = 0, toMs = Number.POSITIVE_INFINITY } = filters;
    const isWanted = ({ letter, decision }: Entry): boolean =>
      (decision?.state ?? 'open') === state &&
      (group === undefined || letter.group === group) &&
      (topic === undefined || letter.topic === topic) &&
      (cause === undefined || letter.reason.includes(cause)) &&
      letter.deadAtMs >= fromMs &&
      letter.deadAtMs < toMs &&
      isBefore(letter, page.before);
    const found = [...this.#entries.values()].filter(isWanted);
    found.sort((one, other) => (isBefore(one.letter, placeOf(other.letter)) ? 1 : -1));
    const { rows, next } = newestFirstOf(found, page, ({ letter }) => placeOf(letter));
    return { rows: rows.map(listedLetter), next };
  }

  #remove({ letter, decision }: Entry): void {
    this.#entries.delete(letter.id);
    if (decision === undefined) this.#count(letter.group, -1);
  }

  /** Whoever writes to the topic names the group, and each name would be a line of metrics for good. */
  #count(named: string, more: number): void {
    const group = LETTER_GROUPS.includes(named) ? named : 'other';
    this.#openOf.set(group, (this.#openOf.get(group) ?? 0) + more);
  }
}

export function listedLetter({ letter, decision }: Readonly<Entry>): ListedLetter {
  const { deadAtMs, place: _, id, ...rest } = letter;
  const deadAt = new Date(deadAtMs).toISOString();
  const decidedAt = decision === undefined ? null : new Date(decision.atMs).toISOString();
  return { id, state: decision?.state ?? 'open', deadAt, decidedAt, ...rest };
}

function placeOf({ deadAtMs, id }: KnownLetter): Place {
  return { millis: String(deadAtMs), id };
}

function isBefore({ deadAtMs, id }: KnownLetter, place: Place): boolean {
  const millis = Number(place.millis);
  return deadAtMs < millis || (deadAtMs === millis && id < place.id);
}
