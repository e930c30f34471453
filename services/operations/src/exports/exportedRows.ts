/** Defines the rows and columns that an export of each kind contains. */
import { PROJECTED, type Projected } from '@questlog/schemas/tables/projected';

interface ExportedRows {
  readonly topic: string;
  readonly from: string;
  /** Columns without the digests and token ids that only Questlog needs. */
  readonly columns: string;
  /** Time of receipt, which decides the day of a row. The time of a row never changes. */
  readonly time: string;
  /** Bytes of the long texts of a row. */
  readonly textBytes: string;
  /** Number that grows if a later version replaces the row at the same offset. */
  readonly version: string;
  readonly condition: string;
}

/**
 * `FINAL` returns the newest version of a report or link, whether ClickHouse has merged the versions or not. A retraction has the
 * offset of its report. The links below version 2 (`pending` and `unresolved`) have offsets of another topic.
 */
const ROWS: Readonly<Record<Projected, Omit<ExportedRows, 'topic'>>> = {
  events: {
    ...{ from: 'events', columns: '*', time: 'received_at', textBytes: 'length(payload)' },
    ...{ version: '0', condition: '1' },
  },
  sessions: {
    ...{ from: 'sessions', columns: '* EXCEPT content_sha256', time: 'registered_at' },
    ...{ textBytes: 'length(metadata)', version: '0', condition: '1' },
  },
  reports: {
    ...{ from: 'report_versions FINAL', columns: '* EXCEPT (request_sha256, filed_by)', time: 'received_at' },
    ...{ textBytes: 'length(description) + length(context)', version: 'version', condition: '1' },
  },
  links: {
    ...{ from: 'report_link_versions FINAL', columns: '*', time: 'changed_at', textBytes: '0' },
    ...{ version: 'version', condition: 'version >= 2' },
  },
};

export function exportedRows(kind: Projected): ExportedRows {
  return { ...ROWS[kind], topic: PROJECTED[kind].topic };
}
