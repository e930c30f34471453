/** What a block of `EventsAccepted` means: which records count, and by how much each count grows. Pure. */
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';

export interface Accepted {
  readonly offset: number;
  readonly message: EventsAccepted;
}

export interface QuotaKey {
  readonly tenantId: string;
  /** First day of the UTC month of `receivedAt`, as days since the epoch. */
  readonly monthDay: number;
}

export interface MinuteKey {
  readonly tenantId: string;
  readonly projectId: string;
  /** Seconds since the epoch, a whole minute, of `receivedAt`. */
  readonly minuteS: number;
  readonly eventType: string;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const MINUTE_MS = 60 * 1000;

/** Splits a block's records into those that count and those whose append id was there before. */
export function dropRepeats(records: readonly Accepted[], seen: (appendId: string) => boolean): Accepted[] {
  const inBlock = new Set<string>();
  return records.filter(({ message: { appendId } }) => {
    if (seen(appendId) || inBlock.has(appendId)) return false;
    inBlock.add(appendId);
    return true;
  });
}

export function quotaKeyOf({ tenantId, receivedAt }: EventsAccepted): QuotaKey {
  const at = new Date(receivedAt);
  return { tenantId, monthDay: Date.UTC(at.getUTCFullYear(), at.getUTCMonth()) / DAY_MS };
}

/** Per type, how many events of the record fall into its minute. */
export function minuteCountsOf(message: EventsAccepted): { key: MinuteKey; events: number }[] {
  const { tenantId, projectId } = message;
  const minuteS = (Math.floor(message.receivedAt / MINUTE_MS) * MINUTE_MS) / 1000;
  const byType = new Map<string, number>();
  for (const { eventType } of message.events) byType.set(eventType, (byType.get(eventType) ?? 0) + 1);
  return [...byType].map(([eventType, events]) => ({
    key: { tenantId, projectId, minuteS, eventType },
    events,
  }));
}

export const nameOfQuotaKey = (key: QuotaKey): string => `${key.tenantId} ${key.monthDay}`;
export const nameOfMinuteKey = (key: MinuteKey): string =>
  `${key.tenantId} ${key.projectId} ${key.minuteS} ${key.eventType}`;
