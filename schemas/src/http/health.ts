/** Bodies of `GET /readyz`, `GET /admin/lag`, and `GET /admin/traffic`. */
import Type, { type Static } from 'typebox';
import { Nullable, Timestamp } from './fields.ts';

const Count = Type.Integer({ minimum: 0 });
const byName = (description: string) =>
  Type.Optional(Type.Record(Type.String(), Type.String(), { description }));

export const Readiness = Type.Object({
  status: Type.Enum(['ready', 'not ready']),
  problems: byName('Reasons why the process is not ready, by name.'),
  warnings: byName('Problems of other parts, by name.'),
});

export const ConsumerLag = Type.Object({
  group: Type.String(),
  topic: Type.String(),
  lagRecords: Type.Integer({
    minimum: 0,
    description: 'Unprocessed records in all partitions that have a leader.',
  }),
  lagMs: Nullable(
    Type.Number({
      description: 'Age of the oldest unprocessed record. Null: the log did not return the record in time.',
    }),
  ),
  retentionMs: Nullable(
    Type.Number({ description: 'Retention time of the topic. Null: the topic has no time limit.' }),
  ),
  shareOfRetention: Nullable(
    Type.Number({ description: '`lagMs` divided by `retentionMs`. Above 1, records are lost.' }),
  ),
  lostRecords: Type.Integer({
    minimum: 0,
    description: 'Records that retention removed before the group had read them.',
  }),
  partitions: Type.Array(Type.Object({ partition: Count, offset: Count, lagRecords: Count })),
});

export const LagOutput = Type.Object({
  at: Timestamp,
  consumers: Type.Array(ConsumerLag),
  projection: Nullable(
    Type.Object(
      {
        since: Timestamp,
        lateShare: Type.Number({
          minimum: 0,
          maximum: 1,
          description: 'Share of the time in which ClickHouse lacked events that were older than 20 s.',
        }),
      },
      { description: 'Measured by this process in the last day. Null: not measured yet.' },
    ),
  ),
  disk: Nullable(
    Type.Object(
      { freeBytes: Count, totalBytes: Count },
      { description: 'Disk of the data folder. Null: the process has no data folder.' },
    ),
  ),
});

export const TrafficOutput = Type.Object({
  at: Timestamp,
  servesGames: Type.Boolean({
    description:
      'False: this process has no listener for games, so its events and requests are 0. Read the metrics of each ingest instead.',
  }),
  events: Type.Integer({ minimum: 0, description: 'Accepted events.' }),
  requests: Type.Integer({
    minimum: 0,
    description: 'Answered requests below `/v1/`, without the stream of linked events.',
  }),
  rejected: Type.Integer({ minimum: 0, description: 'Those with a 4xx status.' }),
  errors: Type.Integer({ minimum: 0, description: 'Those with a 5xx status.' }),
  durations: Type.Array(
    Type.Object({
      atMostSeconds: Nullable(Type.Number({ description: 'Null: any duration.' })),
      requests: Count,
    }),
    { description: 'Number of requests that took at most this time, in ascending order.' },
  ),
  deadLetters: Type.Integer({ minimum: 0, description: 'Open dead letters.' }),
  memoryBytes: Type.Integer({ minimum: 0, description: 'Resident memory.' }),
});

export type Readiness = Static<typeof Readiness>;
export type ConsumerLag = Static<typeof ConsumerLag>;
export type LagOutput = Static<typeof LagOutput>;
export type TrafficOutput = Static<typeof TrafficOutput>;
