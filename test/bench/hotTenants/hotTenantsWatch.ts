/** Reads figures between two phases: events by partition, and the CPU of each process. */
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Deployment, ServiceName } from '../../cluster/deployment.ts';

export interface LogFigures {
  readonly events: number;
  readonly appends: number;
  /** Events by partition; undefined for a partition without events. */
  readonly byPartition: readonly number[];
}

const WRITTEN = `questlog_projector_records_total{topic="${TOPICS.events}",outcome="written"}`;

/** Counts the events in ClickHouse. */
export async function placed(deployment: Deployment, tenantId: string): Promise<LogFigures> {
  const counted = (table: string) =>
    deployment.sql<{ place: number; count: number }>(
      `SELECT log_partition AS place, toUInt32(count()) AS count FROM ${table}
       WHERE tenant_id = '${tenantId}' GROUP BY place`,
    );
  const [events, appends] = [await counted('events'), await counted('appends')];
  const total = (rows: readonly { count: number }[]): number => rows.reduce((sum, row) => sum + row.count, 0);
  const byPartition: number[] = [];
  for (const { place, count } of events) byPartition[place] = count;
  return { events: total(events), appends: total(appends), byPartition };
}

export interface ServiceWork {
  readonly name: ServiceName;
  /** User and system time since the start of the process or since another sample. */
  readonly cpuSeconds: number;
  /** Event records that the process has written to ClickHouse since then. */
  readonly projected: number;
}

/** Returns the figures of every process, in the order of their starts. */
export function workOf({ services }: Deployment): Promise<ServiceWork[]> {
  return Promise.all(
    services.map(async ({ name, admin }) => {
      const text = (await admin('GET', '/metrics')).text();
      const sampled = (sample: string): number =>
        Number(
          text
            .split('\n')
            .find((line) => line.startsWith(`${sample} `))
            ?.slice(sample.length) ?? 0,
        );
      return { name, cpuSeconds: sampled('process_cpu_seconds_total'), projected: sampled(WRITTEN) };
    }),
  );
}

export function since(before: readonly ServiceWork[], after: readonly ServiceWork[]): ServiceWork[] {
  return after.map(({ name, cpuSeconds, projected }, i) => ({
    name,
    cpuSeconds: cpuSeconds - (before[i]?.cpuSeconds ?? 0),
    projected: projected - (before[i]?.projected ?? 0),
  }));
}
