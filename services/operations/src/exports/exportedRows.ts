/** Defines the rows and columns that an export of each kind contains. */
import { PROJECTED, type Projected } from '@questlog/schemas/tables/projected';

export interface ExportedRows {
  readonly topic: string;
  readonly from: string;
  /** Columns of the exported rows. Digests and ids of tokens are not exported. */
  readonly columns: string;
  /** Column with the time of receipt, which never changes. The time decides to which day a row belongs. */
  readonly time: string;
  /** SQL expression for the approximate size of the long texts and lists of a row, in bytes. */
  readonly textBytes: string;
  /** SQL expression that changes if a later version replaces a row at the same offset. */
  readonly version: string;
  readonly condition: string;
}

const REPORT_TEXTS = 'length(title) + length(description) + length(context)';
/** In a CSV or NDJSON file, an id has about 40 bytes, and an attachment has at most about 700 bytes. */
const REPORT_LISTS = '40 * (length(event_ids) + length(inline_event_ids)) + 700 * length(attachments)';

/**
 * `FINAL` returns only the newest version of a report or link, even before ClickHouse has merged the versions. A retracted
 * report keeps its offset. Links below version 2 (`pending` and `unresolved`) have offsets of another topic, so an export omits
 * them.
 */
const ROWS: Readonly<Record<Projected, Omit<ExportedRows, 'topic'>>> = {
  events: {
    ...{ from: 'events', columns: '*', time: 'received_at' },
    ...{ textBytes: 'length(event_type) + length(payload)', version: '0', condition: '1' },
  },
  sessions: {
    ...{ from: 'sessions', columns: '* EXCEPT content_sha256', time: 'registered_at' },
    ...{ textBytes: 'length(metadata)', version: '0', condition: '1' },
  },
  reports: {
    ...{ from: 'report_versions FINAL', columns: '* EXCEPT (request_sha256, filed_by)', time: 'received_at' },
    ...{ textBytes: `${REPORT_TEXTS} + ${REPORT_LISTS}`, version: 'version', condition: '1' },
  },
  links: {
    ...{ from: 'report_link_versions FINAL', columns: '*', time: 'changed_at', textBytes: '0' },
    ...{ version: 'version', condition: 'version >= 2' },
  },
};

export function exportedRows(kind: Projected): ExportedRows {
  return { ...ROWS[kind], topic: PROJECTED[kind].topic };
}
