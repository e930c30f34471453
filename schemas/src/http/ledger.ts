/** Bodies of `GET /admin/ledger` (event counts by minute) and `POST /admin/verify` (one JSON object per line). */
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

export const DIFFERENCES = {
  missing: 'ClickHouse lacks events of a record in the log',
  twice: 'ClickHouse has events of a record more than once',
  unfounded: 'ClickHouse has events of a record that is not in the log',
  unreadable: 'a record cannot be decoded and is not a dead letter',
  unaccounted: 'the log confirmed more events than are projected, dropped as duplicates, or dead letters',
  miscounted: 'event_counts_by_minute differs from the number of rows in events',
} as const;

export interface Difference {
  readonly kind: 'difference';
  readonly what: keyof typeof DIFFERENCES;
  readonly tenantId: string | null;
  readonly minute: string;
  /** Number of events that ClickHouse must have, according to the log. If `what` is `miscounted`, number of stored rows. */
  readonly expected: number;
  readonly found: number;
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
  /**
   * Number of records and events in the verified part of the log. Each record is counted in `projected`, `repeated`, `dead`,
   * `pastRetention`, or `notYet`, or is reported as a difference.
   */
  readonly logged: Amount;
  readonly projected: Amount;
  readonly repeated: Amount;
  /**
   * Number of records that became dead letters, and number of their events. If a record cannot be decoded, its events are not
   * counted.
   */
  readonly dead: Amount;
  readonly pastRetention: Amount;
  readonly notYet: Amount;
  readonly expired: number;
  /** Number of events in ClickHouse that a truncation removed from the log. */
  readonly cut: number;
  readonly ofOtherLogs: number;
  readonly differences: number;
  /** True if the verification checked the whole time range. A verification with too many differences stops early. */
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
  tenantId: Type.String({ description: 'All zeros: the tenant is unknown.' }),
  minute: Timestamp,
  outcomes: Type.Record(Type.String(), Count, {
    description: 'Requests to `/v1/ingest` by outcome: `accepted`, `replayed`, or a problem code.',
  }),
  acceptedEvents: Events('Events answered with a 2xx status.'),
  sampledEvents: Events('Accepted events that a sampling switch dropped.'),
  loggedEvents: Events('Events that the log confirmed.'),
  uncertainEvents: Events('Events of appends without an answer from the log, which may have stored them.'),
  projectedEvents: Events('Events in ClickHouse.'),
  repeatedEvents: Events('Events of duplicate appends, which were dropped.'),
  deadEvents: Events('Events in dead letters.'),
  deadRecords: Count,
  missingEvents: Events('Confirmed events that are not projected, not duplicates, and not dead letters.'),
  unloggedEvents: Events(
    'Accepted events that were not dropped by sampling and that the log did not confirm.',
  ),
});

export const LedgerAnswer = Type.Object({
  settledUntil: Nullable(Timestamp),
  difference: Nullable(
    Type.Object(
      { events: Count, ageSeconds: Count },
      { description: 'Missing and unlogged events of the last day. Null: the projector has lag.' },
    ),
  ),
  minutes: Type.Array(LedgerMinute),
  isWhole: Type.Boolean({ description: 'False: the list contains only the newest 10,000 minutes.' }),
});

export type LedgerMinute = Static<typeof LedgerMinute>;
export type LedgerAnswer = Static<typeof LedgerAnswer>;
