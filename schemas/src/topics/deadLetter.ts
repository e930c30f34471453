/**
 * `questlog.dead-letters.v1`: a record that could not be processed, unchanged, with its position and the reason. Key:
 * the key of the record. If the record is too large for this topic, its value and headers are omitted, and if
 * necessary its key; the reason says so. A record without a value is not a dead letter but a decision about one
 * (`DECISION_HEADER`).
 */
import { MILLIS, messageContract, optional } from './contract.ts';
import { TOPICS } from './topics.ts';

export interface DeadLetter {
  readonly logId: string;
  readonly sourceTopic: string;
  readonly sourcePartition: number;
  readonly sourceOffset: number;
  readonly group: string;
  readonly reason: string;
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  readonly deadAt: number;
}

export const deadLetter = messageContract<DeadLetter>(TOPICS.deadLetters, {
  name: 'DeadLetter',
  fields: [
    { name: 'logId', type: 'string' },
    { name: 'sourceTopic', type: 'string' },
    { name: 'sourcePartition', type: 'int' },
    { name: 'sourceOffset', type: 'long' },
    { name: 'group', type: 'string' },
    { name: 'reason', type: 'string' },
    optional('key', 'string'),
    optional('value', 'bytes'),
    { name: 'headers', type: { type: 'map', values: 'string' } },
    { name: 'deadAt', type: MILLIS },
  ],
});
