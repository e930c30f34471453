/**
 * Refused credentials on their way to the audit. Whoever has none may send as many as he likes, and must not fill it: of an
 * address the first of a minute is told at once and the others as one count at its end; so are those of more addresses. Pure.
 */
import type { AuditEntry } from '@questlog/schemas/topics/auditEntry';

export type CredentialRejection = Pick<
  AuditEntry,
  'at' | 'doneAt' | 'actor' | 'address' | 'method' | 'route' | 'status' | 'code' | 'count'
>;

const SEVERAL = 'several';
/** Told apart in a minute, by status and address. */
export const MAX_ADDRESSES = 10;

export class CredentialRejectionCounts {
  /** Of this minute. Undefined: none since the first was told. */
  readonly #pending = new Map<string, CredentialRejection | undefined>();

  /** @returns what is to be told at once. */
  note(rejection: CredentialRejection): CredentialRejection | undefined {
    const key = keyOf(rejection);
    if (this.#pending.has(key) || this.#pending.size >= MAX_ADDRESSES) {
      this.add(rejection);
      return undefined;
    }
    this.#pending.set(key, undefined);
    return rejection;
  }

  /** To be told at the end of the minute. */
  add(rejection: CredentialRejection): void {
    const ownKey = keyOf(rejection);
    const key =
      this.#pending.has(ownKey) || this.#pending.size < MAX_ADDRESSES ? ownKey : `${rejection.status}`;
    const previous = this.#pending.get(key);
    this.#pending.set(key, previous === undefined ? rejection : merged(previous, rejection));
  }

  /** What is to be told of a minute that is over. */
  take(): CredentialRejection[] {
    const counted = [...this.#pending.values()].filter((rejection) => rejection !== undefined);
    this.#pending.clear();
    return counted;
  }
}

function keyOf({ status, address }: CredentialRejection): string {
  return `${status} ${address}`;
}

function merged(one: CredentialRejection, other: CredentialRejection): CredentialRejection {
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
