/**
 * Limits the audit records of rejected credentials. The first rejection of an address in a minute is recorded immediately.
 * Further rejections of the address are counted.
 */
import type { AuditEntry } from '@questlog/schemas/topics/auditEntry';

export type CredentialRejection = Pick<
  AuditEntry,
  'at' | 'doneAt' | 'actor' | 'address' | 'method' | 'route' | 'status' | 'code' | 'count'
>;

const SEVERAL = 'several';
/** Maximum number of addresses that get their own audit record in one minute. All further addresses share one record. */
export const MAX_ADDRESSES = 10;

export class CredentialRejectionCounts {
  /**
   * Rejections of the current minute that the audit has not recorded yet, by address. Undefined if the address had only one
   * rejection, because the audit records the first rejection immediately.
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
