/** Appends a further record of an existing bug report to the topic of reports. */
import type { Log } from '@questlog/runtime/log/log';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { partitionOf } from '@questlog/schemas/partition';
import { type ReportLink, reportLinks } from '@questlog/schemas/topics/reportLinks';
import { TOPICS } from '@questlog/schemas/topics/topics';

export type AppendReport = (record: ReportLink) => Promise<void>;

export async function openAppendReport({
  log,
  registry,
}: {
  readonly log: Log;
  readonly registry: SchemaRegistry;
}): Promise<AppendReport> {
  const codec = await createCodec(registry, reportLinks);
  const partitions = await log.partitionCount(TOPICS.reportLinks);
  return async (record) => {
    const home = partitionOf(record.tenantId, 0, partitions);
    await log.append(TOPICS.reportLinks, home, [{ key: record.tenantId, value: codec.encode(record) }]);
  };
}
