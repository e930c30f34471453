/**
 * Refused credentials on their way to the audit. Whoever has none may send as many as he likes, and must not fill it: of an
 * address the first of a minute is told at once and the others as one count at its end; so are those of more addresses. Pure.
 */
import type { AuditEntry } from '@questlog/schemas/topics/auditEntry';

export type Refusal = Pick<
  AuditEntry,
  'at' | 'doneAt' | 'actor' | 'address' | 'method' | 'route' | 'status' | 'code' | 'count'
>;

const SEVERAL = 'several';
/** Told apart in a minute, by status and address. */
export const MAX_ADDRESSES = 10;

export class RefusalCounts {
  /** Of this minute. Undefined: none since the first was told. */
  readonly #later = new Map<string, Refusal | undefined>();

  /** @returns what is to be told at once. */
  note(refusal: Refusal): Refusal | undefined {
    const key = keyOf(refusal);
    if (this.#later.has(key) || this.#later.size >= MAX_ADDRESSES) {
      this.add(refusal);
      return undefined;
    }
    this.#later.set(key, undefined);
    return refusal;
  }

  /** To be told at the end of the minute. */
  add(refusal: Refusal): void {
    const own = keyOf(refusal);
    const key = this.#later.has(own) || this.#later.size < MAX_ADDRESSES ? own : `${refusal.status}`;
    const before = this.#later.get(key);
    this.#later.set(key, before === undefined ? refusal : merged(before, refusal));
  }

  /** What is to be told of a minute that is over. */
  take(): Refusal[] {
    const counted = [...this.#later.values()].filter((refusal) => refusal !== undefined);
    this.#later.clear();
    return counted;
  }
}

function keyOf({ status, address }: Refusal): string {
  return `${status} ${address}`;
}

function merged(one: Refusal, other: Refusal): Refusal {
  const same = (name: 'actor' | 'address' | 'method' | 'route') =>
    one[name] === other[name] ? one[name] : SEVERAL;
  return {
    ...{ actor: same('actor'), address: same('address'), method: same('method'), route: same('route') },
    at: Math.min(one.at, other.at),
    doneAt: Math.max(one.doneAt ?? 0, other.doneAt ?? 0),
    status: one.status,
    code: one.code,
    count: one.count + other.count,
  };
}
