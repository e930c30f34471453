/** Erasures as operators ask for them and see them: `/admin/erasures`. */
import Type, { type Static } from 'typebox';
import { ERASURE_STATES } from '../topics/directoryEntry.ts';
import { Nullable, Timestamp, Uuid } from './fields.ts';

/** What somebody misspells must not become an erasure of more than was meant. */
const noOtherFields = { additionalProperties: false };
const playerId = Type.String({ minLength: 1, maxLength: 1000 });

export const ErasureInput = Type.Object(
  {
    tenantId: Uuid,
    projectId: Type.Optional(Uuid),
    sessionId: Type.Optional(Uuid),
    player: Type.Optional(
      Type.Object(
        { externalId: Type.Optional(playerId), deviceId: Type.Optional(playerId) },
        {
          ...noOtherFields,
          minProperties: 1,
          description:
            'As its sessions were registered; with both ids, the sessions that have both. A device id may be that of a model, which many players share.',
        },
      ),
    ),
    many: Type.Optional(
      Type.Boolean({
        description:
          'Also more than 20,000 sessions of the player: whoever has a token can register as many under its id.',
      }),
    ),
  },
  {
    ...noOtherFields,
    description:
      'A session or a player, of one project or of all; without them the project, without that the tenant: all that was received before the request.',
  },
);

const count = (description: string) => Type.Integer({ minimum: 0, description });

export const ErasureReceipt = Type.Object({
  asked: Type.Object({
    tenantId: Uuid,
    projectId: Nullable(Uuid),
    sessionId: Nullable(Uuid),
    player: Nullable(Type.Object({ externalId: Nullable(Type.String()), deviceId: Nullable(Type.String()) })),
    at: Timestamp,
  }),
  found: Type.Object({
    events: count('Rows of events.'),
    links: count('Pairs of a report and an event.'),
    reports: count('Bug reports.'),
    attachments: count('Files among the uploads.'),
    sessions: count('Rows of sessions; of a player those that were known when it was asked for.'),
    deadLetters: count('Open ones that were discarded.'),
    linkedEvents: count('Records of the topic of linked events, as far as ClickHouse has them.'),
    log: count('Records of the other topics that rows came from. They may tell of others, too.'),
  }),
  hiddenAt: Nullable(Timestamp),
  goneFromDiskAt: Nullable(Timestamp),
  logExpiresAt: Type.String({
    format: 'date-time',
    description:
      'When the topics have given up the last record of it, by their retention: the log is never rewritten, and what it keeps until then is not read back.',
  }),
});

export const ErasureOutput = Type.Object({
  id: Uuid,
  state: Type.Enum([...ERASURE_STATES], {
    description: 'done: reading finds none of it, and the files of ClickHouse have none of it.',
  }),
  problem: Nullable(
    Type.String({
      description:
        'Why it failed, what it waits for, or what it cannot find: what of a player outlasts the sessions.',
    }),
  ),
  receipt: ErasureReceipt,
});

export type ErasureInput = Static<typeof ErasureInput>;
export type ErasureOutput = Static<typeof ErasureOutput>;
