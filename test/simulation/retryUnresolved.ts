/** Simulates the operator's retry: looks up projected reports with unresolved links again. */
import { keyOf } from '@questlog/linker/core/decision';
import type { Topology } from '@questlog/linker/testing/topology';
import { linkIdOf } from '@questlog/schemas/topics/linkedEvents';

export function retryUnresolved(topology: Topology): void {
  const tables = topology.tables();
  const notices = topology.topics.reports.flat().filter(({ kind }) => kind === 'unresolved');
  for (const [key, ofReport] of Map.groupBy(notices, keyOf)) {
    const known = tables.reports.get(key);
    if (known === undefined || known.isRetracted) continue;
    const { record } = known;
    const isLinked = (id: string): boolean =>
      tables.isLinked(linkIdOf(record.projectId, record.reportId, id));
    if (ofReport.some(({ eventIds }) => !eventIds.every(isLinked))) {
      topology.appendReport({ ...record, kind: 'retried' });
    }
  }
}
