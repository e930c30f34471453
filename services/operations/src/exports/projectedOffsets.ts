/** Reads the projected offsets of a topic, and compares them with the offsets of an earlier plan. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { ExportOffset } from '@questlog/schemas/http/export';

/** Reads the table behind the view `projected_offsets`, because the view has no column for the UUID of the table. */
export async function projectedOffsets(store: Pick<Store, 'query'>, topic: string): Promise<ExportOffset[]> {
  const rows = await store.query<{
    readonly logId: string;
    readonly partition: number;
    readonly tableUuid: string;
    readonly nextOffset: string;
    readonly truncatedLogId: string | null;
    readonly truncatedFrom: string | null;
  }>(
    `SELECT log_id AS logId, partition, table_uuid AS tableUuid, next_offset AS nextOffset, truncated_log_id AS truncatedLogId,
            truncated_from AS truncatedFrom
     FROM projected_offset_versions FINAL
     WHERE topic = {topic:String} AND (table_name, table_uuid) IN (SELECT name, uuid FROM system.tables)
     ORDER BY log_id, partition`,
    { topic },
  );
  return rows.map(({ nextOffset, truncatedFrom, ...row }) => ({
    ...row,
    nextOffset: Number(nextOffset),
    truncatedFrom: truncatedFrom === null ? null : Number(truncatedFrom),
  }));
}

/**
 * Checks that no truncation and no restore has changed the rows below the offsets of a plan. After a truncation or a restore,
 * other records can have the same offsets.
 * @throws Rejected if a partition has no offset, the table was restored, or the log has lost records below a planned offset
 */
export function requireUnchanged(planned: readonly ExportOffset[], current: readonly ExportOffset[]): void {
  for (const offset of planned) {
    const now = current.find((one) => isSamePartition(one, offset));
    if (now === undefined)
      throw new Rejected(
        'precondition_failed',
        `partition ${offset.partition} has no projected offset; repeat the export after the projector has caught up`,
      );
    const hasLostRecords = current.some(
      (lost) =>
        lost.partition === offset.partition &&
        lost.truncatedLogId === offset.logId &&
        (lost.truncatedFrom ?? 0) < offset.nextOffset &&
        !planned.some((one) => isSamePartition(one, lost)),
    );
    if (hasLostRecords || now.tableUuid !== offset.tableUuid || now.nextOffset < offset.nextOffset)
      throw new Rejected(
        'precondition_failed',
        'since the start of this export, the log has lost records or the tables were restored; export into another folder',
      );
  }
}

export function isSamePartition(
  one: Pick<ExportOffset, 'logId' | 'partition'>,
  other: Pick<ExportOffset, 'logId' | 'partition'>,
): boolean {
  return one.logId === other.logId && one.partition === other.partition;
}
