/** Dead letters as operators see them: `/admin/dead-letters`. */
import Type, { type Static } from 'typebox';
import { NextCursor, Nullable, Timestamp, Uuid } from './fields.ts';

export const DEAD_LETTER_STATES = ['open', 'replayed', 'discarded'] as const;
export type DeadLetterState = (typeof DEAD_LETTER_STATES)[number];

const SHARED_FIELDS = {
  id: Uuid,
  state: Type.Enum([...DEAD_LETTER_STATES]),
  deadAt: Timestamp,
  decidedAt: Nullable(Timestamp),
  group: Type.String({ description: 'The consumer group that could not process it; others may have.' }),
  topic: Type.String({ description: 'Where the record stood, with its partition and offset.' }),
  partition: Type.Integer({ minimum: 0 }),
  offset: Type.Integer({ minimum: 0 }),
  valueBytes: Nullable(
    Type.Integer({ minimum: 0, description: 'Null: without a value, or too large to be kept.' }),
  ),
};

export const ListedDeadLetter = Type.Object({
  ...SHARED_FIELDS,
  key: Nullable(Type.String({ description: 'Of the record: the tenant. Cut at 200 characters.' })),
  reason: Type.String({ description: 'Cut at 300 characters.' }),
});

export const DeadLetterPage = Type.Object({
  deadLetters: Type.Array(ListedDeadLetter),
  next: NextCursor,
  open: Type.Integer({ minimum: 0, description: 'All that are open, whatever was asked for.' }),
});

export const InspectedDeadLetter = Type.Object({
  ...SHARED_FIELDS,
  key: Nullable(Type.String()),
  reason: Type.String(),
  headers: Type.Record(Type.String(), Type.String()),
  value: Type.Optional(
    Type.Unknown({
      description:
        'The record as its topic’s schema reads it, where it does and it has at most 1 MiB. Bytes are text, or base64 where they are none.',
    }),
  ),
  valueBase64: Type.Optional(Type.String({ description: 'Otherwise its bytes, the first 64 KiB.' })),
});

export const ReplayedDeadLetter = Type.Object({
  id: Uuid,
  topic: Type.String({ description: 'Where the record stands again.' }),
  partition: Type.Integer({ minimum: 0 }),
  offset: Type.Integer({ minimum: 0 }),
});

export type ListedDeadLetter = Static<typeof ListedDeadLetter>;
export type DeadLetterPage = Static<typeof DeadLetterPage>;
export type InspectedDeadLetter = Static<typeof InspectedDeadLetter>;
export type ReplayedDeadLetter = Static<typeof ReplayedDeadLetter>;
