/** Bodies of the requests and responses of an export. */
import Type, { type Static } from 'typebox';
import { EXPORT_FORMATS, EXPORT_KINDS, EXPORT_STATES } from '../topics/directoryEntry.ts';
import { Nullable, Timestamp, Uuid } from './fields.ts';

const kind = Type.Enum([...EXPORT_KINDS]);
const day = Type.String({ format: 'date', pattern: '^2[01]\\d\\d-\\d\\d-\\d\\d$', description: 'UTC day.' });
const wholeNumber = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const partition = Type.Integer({ minimum: 0, maximum: 2 ** 32 - 1 });
const noOtherFields = { additionalProperties: false };

/** A row of `projected_offsets` with the UUID of its table, because a restored table has another UUID. */
export const ExportOffset = Type.Object({
  logId: Uuid,
  partition,
  tableUuid: Uuid,
  nextOffset: wholeNumber,
  truncatedLogId: Nullable(Uuid),
  truncatedFrom: Nullable(wholeNumber),
});
export type ExportOffset = Static<typeof ExportOffset>;

export const ExportScope = Type.Object(
  {
    projectId: Uuid,
    kind,
    from: Nullable(day),
    to: Nullable(Type.String({ ...day, description: 'UTC day after the last day.' })),
  },
  noOtherFields,
);
export type ExportScope = Static<typeof ExportScope>;

export const ExportPlanInput = Type.Object(
  {
    ...ExportScope.properties,
    format: Type.Optional(
      Type.Enum([...EXPORT_FORMATS], {
        default: 'parquet',
        description: 'Format of the files. The chunks of `csv` and `ndjson` have fewer rows.',
      }),
    ),
    after: Type.Array(ExportOffset, { description: 'Offsets of the previous plan, or an empty list.' }),
  },
  noOtherFields,
);
export type ExportPlanInput = Static<typeof ExportPlanInput>;

/** The rows of one day (UTC) whose records have these offsets, both inclusive. */
export const ExportChunk = Type.Object({
  day,
  logId: Uuid,
  partition,
  firstOffset: wholeNumber,
  lastOffset: wholeNumber,
});
export type ExportChunk = Static<typeof ExportChunk>;

export const ExportPlan = Type.Object({
  offsets: Type.Array(ExportOffset),
  unknownRows: Type.Integer({
    minimum: 0,
    description: 'Rows of partitions without a projected offset. No chunk contains these rows.',
  }),
  chunks: Type.Array(Type.Object({ ...ExportChunk.properties, rows: wholeNumber })),
});
export type ExportPlan = Static<typeof ExportPlan>;

export const ExportChunkInput = Type.Object(
  {
    ...ExportChunk.properties,
    projectId: Uuid,
    kind,
    format: Type.Enum([...EXPORT_FORMATS]),
    offsets: Type.Array(ExportOffset, { description: 'Offsets in the plan for the partition of the chunk.' }),
    exceptState: Nullable(
      Type.String({ description: 'The response is empty (204) if the chunk still has this state.' }),
    ),
  },
  noOtherFields,
);
export type ExportChunkInput = Static<typeof ExportChunkInput>;

/**
 * Headers of a chunk. The state changes if an erasure, the retention, or a retraction changes the rows of the chunk, or if the chunk was
 * read during an erasure.
 */
export const EXPORT_HEADERS = { rows: 'Questlog-Export-Rows', state: 'Questlog-Export-State' } as const;

const MAX_EVERY_HOURS = 24 * 366;

export const ExportInput = Type.Object(
  {
    projectId: Uuid,
    kind,
    format: Type.Optional(Type.Enum([...EXPORT_FORMATS], { default: 'parquet' })),
    from: Type.Optional(day),
    to: Type.Optional(Type.String({ ...day, description: 'UTC day after the last day.' })),
    output: Type.String({
      pattern: '^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_=-][A-Za-z0-9_.=-]{0,199}){0,5}/?$',
      description:
        'Bucket and prefix of the files. The process uses the settings `QUESTLOG_S3_…` except the bucket.',
      examples: ['s3://bucket/questlog'],
    }),
    everyHours: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_EVERY_HOURS,
        description: 'Hours between two runs. Omitted: the export runs once.',
      }),
    ),
  },
  noOtherFields,
);
export type ExportInput = Static<typeof ExportInput>;

export const ExportOutput = Type.Object({
  id: Uuid,
  ...ExportScope.properties,
  format: Type.Enum([...EXPORT_FORMATS]),
  path: Type.String({ description: 'Folder of the files and of `manifest.json`.' }),
  everyHours: Nullable(Type.Integer()),
  state: Type.Enum([...EXPORT_STATES], {
    description: '`failed`: a repeated run would fail, too. After other errors, the state is `queued`.',
  }),
  problem: Nullable(Type.String({ description: 'Why the latest run failed.' })),
  nextRunAt: Nullable(Timestamp),
  finishedAt: Nullable(Timestamp),
  files: wholeNumber,
  rows: wholeNumber,
  bytes: wholeNumber,
  progress: Nullable(
    Type.Object(
      { rows: wholeNumber, allRows: wholeNumber },
      { description: 'Rows in the complete chunks of the current run, and in all chunks of the run.' },
    ),
  ),
  createdAt: Timestamp,
});
export type ExportOutput = Static<typeof ExportOutput>;
