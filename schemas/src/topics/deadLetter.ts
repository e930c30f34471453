/**
 * The topic `questlog.dead-letters.v1` contains copies of records that cannot be processed. A record without a value is an
 * operator's decision (see `DECISION_HEADER`). A copy that would be too large omits the value, headers, and sometimes the key.
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
