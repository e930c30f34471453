/**
 * Limits the audit records of rejected credentials. For each address, one rejection per minute is recorded immediately, and the
 * others are counted.
 */
import type { AuditEntry } from '@questlog/schemas/topics/auditEntry';

export type CredentialRejection = Pick<
  AuditEntry,
  'at' | 'doneAt' | 'actor' | 'address' | 'method' | 'route' | 'status' | 'code' | 'count'
>;

const SEVERAL = 'several';
/** In each minute, this many addresses get an audit record of their own. All further addresses share one record. */
export const MAX_ADDRESSES = 10;

export class CredentialRejectionCounts {
  /**
   * For each address, the rejections of this minute that the audit does not contain yet. The audit records the first rejection
   * of an address immediately.
   */
  readonly #pending = new Map<string, CredentialRejection | undefined>();

  /** Counts a rejection of credentials. Returns the rejection if the audit must record it immediately. */
  note(rejection: CredentialRejection): CredentialRejection | undefined {
    const key = keyOf(rejection);
    if (this.#pending.has(key) || this.#pending.size >= MAX_ADDRESSES) {
      this.add(rejection);
      return undefined;
    }
    this.#pending.set(key, undefined);
    return rejection;
  }

  add(rejection: CredentialRejection): void {
    const ownKey = keyOf(rejection);
    const key =
      this.#pending.has(ownKey) || this.#pending.size < MAX_ADDRESSES ? ownKey : `${rejection.status}`;
    const previous = this.#pending.get(key);
    this.#pending.set(key, previous === undefined ? rejection : merged(previous, rejection));
  }

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
