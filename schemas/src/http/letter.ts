/** Dead letters as operators see them: `/admin/dead-letters`. */
import Type, { type Static } from 'typebox';
import { NextCursor, Nullable, Timestamp, Uuid } from './fields.ts';

export const LETTER_STATES = ['open', 'replayed', 'discarded'] as const;
export type LetterState = (typeof LETTER_STATES)[number];

const HEAD = {
  id: Uuid,
  state: Type.Enum([...LETTER_STATES]),
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

export const ListedLetter = Type.Object({
  ...HEAD,
  key: Nullable(Type.String({ description: 'Of the record: the tenant. Cut at 200 characters.' })),
  reason: Type.String({ description: 'Cut at 300 characters.' }),
});

export const LetterPage = Type.Object({
  deadLetters: Type.Array(ListedLetter),
  next: NextCursor,
  open: Type.Integer({ minimum: 0, description: 'All that are open, whatever was asked for.' }),
});

export const InspectedLetter = Type.Object({
  ...HEAD,
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

export const ReplayedLetter = Type.Object({
  id: Uuid,
  topic: Type.String({ description: 'Where the record stands again.' }),
  partition: Type.Integer({ minimum: 0 }),
  offset: Type.Integer({ minimum: 0 }),
});

export type ListedLetter = Static<typeof ListedLetter>;
export type LetterPage = Static<typeof LetterPage>;
export type InspectedLetter = Static<typeof InspectedLetter>;
export type ReplayedLetter = Static<typeof ReplayedLetter>;
