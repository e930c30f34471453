/** Defines the Prometheus metrics of the directory. */
import { Gauge } from 'prom-client';
import type { MetricsRegistry } from '../process/metrics.ts';
import type { DirectoryHandle } from './openDirectory.ts';

export function directoryMetrics(
  registry: MetricsRegistry,
  directory?: Pick<DirectoryHandle, 'readOffset'>,
): void {
  const gauge: Gauge = new Gauge({
    name: 'questlog_directory_read_offset',
    help: 'Offset below which this process has read the topic of tenants, projects, and tokens. A change has taken effect in a process as soon as the offset of the process is at least the offset that `operations` reports.',
    registers: [registry],
    collect: (): void => gauge.set(directory?.readOffset() ?? 0),
  });
}
