/**
 * `questlog.events.v1`: what one request had accepted for one partition. The fact that happened; a batch is in it whole
 * or not at all, and a repeat of it is recognised by its append id. Key: the tenant.
 */
import {
  COUNTED,
  MICROS,
  MILLIS,
  messageContract,
  optional,
  RAW_JSON,
  record,
  SAMPLE_RATE,
  SHA_256,
  UUID,
} from './contract.ts';
import { TOPICS } from './topics.ts';

export type Revision = 'A' | 'B';
export const REVISION = { type: 'enum' as const, name: 'Revision', symbols: ['A', 'B'] };

export interface AcceptedEvent {
  readonly id: string;
  readonly sessionId: string | null;
  readonly buildId: string | null;
  readonly eventType: string;
  /** Microseconds since the epoch, UTC. */
  readonly occurredAt: bigint;
  /** The JSON object exactly as the game sent it, UTF-8. */
  readonly payload: Buffer;
  readonly overQuota: boolean;
  /** The client's own count of the session's events, from 1; null: it did not count. */
  readonly sequence: number | null;
  /** The share of its like that was kept, where a switch samples; null or absent: all. */
  readonly sampleRate?: number | null;
}

export interface EventsAccepted {
  readonly appendId: string;
  readonly tenantId: string;
  readonly projectId: string;
  /** Milliseconds since the epoch: the server's clock when it decided. */
  readonly receivedAt: number;
  readonly revision: Revision;
  /** Of a request that carried an `Idempotency-Key`: the key, and the SHA-256 of its body. */
  readonly idempotency: { readonly key: string; readonly digest: Buffer } | null;
  readonly events: readonly AcceptedEvent[];
}

/** Of an event, wherever a record holds one whole; `sampleRate` only where it was accepted. */
export const EVENT_FIELDS = [
  { name: 'id', type: UUID },
  optional('sessionId', UUID),
  optional('buildId', UUID),
  { name: 'eventType', type: 'string' },
  { name: 'occurredAt', type: MICROS },
  { name: 'payload', type: RAW_JSON, doc: 'The JSON object exactly as it was sent.' },
  { name: 'overQuota', type: 'boolean', default: false },
  { ...optional('sequence', COUNTED), doc: 'The client’s own count of the session’s events, from 1.' },
];

const sampleRate = {
  ...optional('sampleRate', SAMPLE_RATE),
  doc: 'The share of its like that was kept, where an operator’s switch samples.',
};

const idempotency = record('Idempotency', [
  { name: 'key', type: UUID },
  { name: 'digest', type: SHA_256 },
]);

export const eventsAccepted = messageContract<EventsAccepted>(TOPICS.events, {
  name: 'EventsAccepted',
  doc: 'What one request had accepted for one partition.',
  fields: [
    { name: 'appendId', type: UUID },
    { name: 'tenantId', type: UUID },
    { name: 'projectId', type: UUID },
    { name: 'receivedAt', type: MILLIS },
    { name: 'revision', type: REVISION },
    optional('idempotency', idempotency),
    { name: 'events', type: { type: 'array', items: record('Event', [...EVENT_FIELDS, sampleRate]) } },
  ],
});
