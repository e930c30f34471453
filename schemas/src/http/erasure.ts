/** Erasures in the form that `/admin/erasures` accepts and returns. */
import Type, { type Static } from 'typebox';
import { ERASURE_STATES } from '../topics/directoryEntry.ts';
import { Nullable, Timestamp, Uuid } from './fields.ts';

/** Rejects unknown fields, because a request with a misspelled filter would erase more data than intended. */
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
            'Ids with which the sessions were registered. With both ids, a session must have both. A device id can be that of a device model, which many players share.',
        },
      ),
    ),
    many: Type.Optional(
      Type.Boolean({
        description:
          'True: allows more than 20,000 sessions of the player. Any client with a token can register sessions under a player’s id.',
      }),
    ),
  },
  {
    ...noOtherFields,
    description:
      'With `sessionId` or `player`: the session or player, in one project or in all projects. Otherwise: all data of the project, or without `projectId` of the tenant, that was received before the request.',
  },
);

const count = (description: string) => Type.Integer({ minimum: 0, description });

const ErasureExport = Type.Object({
  id: Uuid,
  path: Nullable(Type.String({ description: 'Folder of the files. Null if the export was deleted.' })),
  comparedAt: Nullable(
    Type.String({
      format: 'date-time',
      description:
        'Time since which the files contain no erased rows. Null: the files can contain erased rows.',
    }),
  ),
  problem: Nullable(Type.String({ description: 'Why the files can contain erased rows.' })),
  rewritten: count('Number of rewritten files.'),
  planId: Nullable({ ...Uuid, description: 'The manifest has this `planId` for each rewritten file.' }),
  names: Type.Array(Type.String(), {
    description: 'Names of the first rewritten files. Empty for an erasure with many ids.',
  }),
});

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
    sessions: count('Rows of sessions. For a player: the sessions that existed at the time of the request.'),
    deadLetters: count('Open dead letters that were discarded.'),
    linkedEvents: count('Records of the linked-events topic that ClickHouse has.'),
    log: count(
      'Records of the other topics from which the rows were projected. A record can contain other data, too.',
    ),
  }),
  exports: Type.Array(ErasureExport, {
    description:
      'Exports of `POST /admin/exports` with files from before the erasure. Questlog does not know other exported files.',
  }),
  hiddenAt: Nullable(Timestamp),
  goneFromDiskAt: Nullable(Timestamp),
  logExpiresAt: Type.String({
    format: 'date-time',
    description:
      'Time at which topic retention has removed the last record of the data. The log is never rewritten. Until then, Questlog ignores these records.',
  }),
});

export const ErasureOutput = Type.Object({
  id: Uuid,
  state: Type.Enum([...ERASURE_STATES], {
    description: '`done`: no read returns the data, and the files of ClickHouse no longer contain it.',
  }),
  problem: Nullable(
    Type.String({
      description:
        'Why the erasure failed, what it waits for, or which data of a player it cannot find because the sessions have expired.',
    }),
  ),
  receipt: ErasureReceipt,
});

export type ErasureInput = Static<typeof ErasureInput>;
export type ErasureOutput = Static<typeof ErasureOutput>;
