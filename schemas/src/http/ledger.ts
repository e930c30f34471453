/** What operators ask of the books: `GET /admin/ledger`, and `POST /admin/verify`, whose answer is a JSON object a line. */
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
  unaccounted: 'the log confirmed more events to ingest than are projected, repeated or dead',
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
  /** Past the days of their project, so that ClickHouse drops them. */
  readonly pastRetention: Amount;
  /** The projector has not come to them. */
  readonly notYet: Amount;
  /** Events in ClickHouse whose records the log no longer keeps. */
  readonly expired: number;
  /** Events in ClickHouse whose records the log has lost: the table `truncations` names them. */
  readonly cut: number;
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

const Count = Type.Integer({ minimum: 0 });
const Events = (description: string) => Type.Integer({ minimum: 0, description });

export const LedgerMinute = Type.Object({
  tenantId: Type.String({ description: 'Zeros: nobody knows.' }),
  minute: Timestamp,
  outcomes: Type.Record(Type.String(), Count, {
    description: 'Requests to /v1/ingest: accepted, replayed, or a problem code.',
  }),
  acceptedEvents: Events('Answered with a 2xx.'),
  sampledEvents: Events('Of these, left out by a switch that samples.'),
  loggedEvents: Events('The log confirmed them.'),
  uncertainEvents: Events('The log did not answer, and may have them.'),
  projectedEvents: Events('In ClickHouse.'),
  repeatedEvents: Events('Appended again, and dropped.'),
  deadEvents: Events('In the dead letters.'),
  deadRecords: Count,
  missingEvents: Events('Logged, and neither projected, repeated nor dead.'),
  unloggedEvents: Events('Accepted, not sampled out, and not logged.'),
});

export const LedgerAnswer = Type.Object({
  settledUntil: Nullable(Timestamp),
  difference: Nullable(
    Type.Object(
      { events: Count, ageSeconds: Count },
      { description: 'Missing and unlogged events of the last day; null: the projector is behind.' },
    ),
  ),
  minutes: Type.Array(LedgerMinute),
  isWhole: Type.Boolean({ description: 'False: there are more than 10,000; these are the newest.' }),
});

export type LedgerMinute = Static<typeof LedgerMinute>;
export type LedgerAnswer = Static<typeof LedgerAnswer>;
