/** Dead letters in the form that `/admin/dead-letters` returns. */
import Type, { type Static } from 'typebox';
import { NextCursor, Nullable, Timestamp, Uuid } from './fields.ts';

export const DEAD_LETTER_STATES = ['open', 'replayed', 'discarded'] as const;
export type DeadLetterState = (typeof DEAD_LETTER_STATES)[number];

const SHARED_FIELDS = {
  id: Uuid,
  state: Type.Enum([...DEAD_LETTER_STATES]),
  deadAt: Timestamp,
  decidedAt: Nullable(Timestamp),
  group: Type.String({
    description: 'The consumer group that could not process the record. Other groups may have processed it.',
  }),
  topic: Type.String({
    description: 'Topic of the record; with `partition` and `offset`, its original position.',
  }),
  partition: Type.Integer({ minimum: 0 }),
  offset: Type.Integer({ minimum: 0 }),
  valueBytes: Nullable(
    Type.Integer({ minimum: 0, description: 'Null: the record had no value, or it was too large to keep.' }),
  ),
};

export const ListedDeadLetter = Type.Object({
  ...SHARED_FIELDS,
  key: Nullable(Type.String({ description: 'Key of the record: the tenant. At most 200 characters.' })),
  reason: Type.String({ description: 'At most 300 characters.' }),
});

export const DeadLetterPage = Type.Object({
  deadLetters: Type.Array(ListedDeadLetter),
  next: NextCursor,
  open: Type.Integer({
    minimum: 0,
    description: 'Number of all open dead letters, independent of the filters.',
  }),
});

export const InspectedDeadLetter = Type.Object({
  ...SHARED_FIELDS,
  key: Nullable(Type.String()),
  reason: Type.String(),
  headers: Type.Record(Type.String(), Type.String()),
  value: Type.Optional(
    Type.Unknown({
      description:
        'The decoded record, if it decodes and has at most 1 MiB. Bytes that are not text are base64.',
    }),
  ),
  valueBase64: Type.Optional(
    Type.String({ description: 'The first 64 KiB of the record’s bytes, if `value` is absent.' }),
  ),
});

export const ReplayedDeadLetter = Type.Object({
  id: Uuid,
  topic: Type.String({
    description: 'Topic of the replayed record; with `partition` and `offset`, its new position.',
  }),
  partition: Type.Integer({ minimum: 0 }),
  offset: Type.Integer({ minimum: 0 }),
});

export type ListedDeadLetter = Static<typeof ListedDeadLetter>;
export type DeadLetterPage = Static<typeof DeadLetterPage>;
export type InspectedDeadLetter = Static<typeof InspectedDeadLetter>;
export type ReplayedDeadLetter = Static<typeof ReplayedDeadLetter>;
