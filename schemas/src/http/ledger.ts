/** What operators ask of the books: `POST /admin/verify`, whose answer is a JSON object a line. */
import Type, { type Static } from 'typebox';
import { Nullable, Timestamp, Uuid } from './fields.ts';

export const VerifyInput = Type.Object(
  {
    from: Timestamp,
    to: Type.Optional(Nullable(Timestamp)),
    tenantId: Type.Optional(Nullable(Uuid)),
  },
  { additionalProperties: false },
);
export type VerifyInput = Static<typeof VerifyInput>;

/** What may differ, as a sentence. */
export const DIFFERENCES = {
  missing: 'ClickHouse lacks events of a record of the log',
  twice: 'ClickHouse shows events of a record more than once',
  unfounded: 'ClickHouse has events of a record that the log does not have',
  unreadable: 'a record cannot be read, and is no dead letter',
  miscounted: 'event_counts_by_minute does not count what events holds',
} as const;

export interface Difference {
  readonly kind: 'difference';
  readonly what: keyof typeof DIFFERENCES;
  /** Null where the record does not say. */
  readonly tenantId: string | null;
  readonly minute: string;
  /** Events, as the log has them; of counts, as the rows are. */
  readonly expected: number;
  readonly found: number;
  /** Of the events topic; null of a count. */
  readonly partition: number | null;
  readonly offset: number | null;
  readonly appendId: string | null;
}

export interface Amount {
  readonly records: number;
  readonly events: number;
}

export interface VerifySummary {
  readonly kind: 'summary';
  readonly from: string;
  readonly to: string;
  /** What the log holds of that time. It is the sum of what follows, and of what differs. */
  readonly logged: Amount;
  /** In ClickHouse. */
  readonly projected: Amount;
  /** Appended again, and rightly dropped. */
  readonly repeated: Amount;
  /** In the dead letters; events as far as the records can be read. */
  readonly dead: Amount;
  /** The projector has not come to them. */
  readonly notYet: Amount;
  /** Events in ClickHouse whose records the log no longer keeps. */
  readonly expired: number;
  /** Events in ClickHouse of a log before this one. */
  readonly ofOtherLogs: number;
  readonly differences: number;
  /** False: so much differs that the recount was broken off. */
  readonly isWhole: boolean;
}

export interface VerifyProgress {
  readonly kind: 'progress';
  readonly records: number;
  readonly bytes: number;
}

export interface VerifyFailed {
  readonly kind: 'failed';
  readonly detail: string;
}

export type VerifyLine = Difference | VerifySummary | VerifyProgress | VerifyFailed;
