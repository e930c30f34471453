/** Bodies of the requests and responses of an export. */
import Type, { type Static } from 'typebox';
import { Nullable, Uuid } from './fields.ts';

const kind = Type.Enum(['events', 'sessions', 'reports', 'links']);
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
    after: Type.Array(ExportOffset, { description: 'Offsets of the previous plan, or an empty list.' }),
  },
  noOtherFields,
);

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
    format: Type.Enum(['parquet', 'csv', 'ndjson']),
    offsets: Type.Array(ExportOffset, { description: 'Offsets in the plan for the partition of the chunk.' }),
    exceptState: Nullable(
      Type.String({ description: 'The response is empty (204) if the chunk still has this state.' }),
    ),
  },
  noOtherFields,
);
export type ExportChunkInput = Static<typeof ExportChunkInput>;

/** Headers of a chunk. The state changes if an erasure, the retention, or a retraction changes the rows of the chunk. */
export const EXPORT_HEADERS = { rows: 'Questlog-Export-Rows', state: 'Questlog-Export-State' } as const;
