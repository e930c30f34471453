/**
 * The topic `questlog.dead-letters.v1` contains dead letters. A dead letter is an unchanged record that could not be processed,
 * with its position and the reason. The key of the dead letter is the key of the record. If the record is too large for this
 * topic, its value and headers are omitted, and the key if necessary. The reason then mentions the omission. A record without a
 * value is a decision about a dead letter (`DECISION_HEADER`).
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
  /** Time at which the record became a dead letter, in milliseconds since the epoch. */
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
