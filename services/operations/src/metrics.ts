/** Defines the Prometheus metrics of the operations service: name, type, unit, and meaning. */
import { type HttpMetrics, httpMetrics } from '@questlog/runtime/http/metrics';
import {
  type BoundedResources,
  type Exposition,
  type MetricsRegistry,
  resourceMetrics,
} from '@questlog/runtime/process/metrics';
import { Gauge } from 'prom-client';

export type OperationsMetrics = ReturnType<typeof operationsMetrics>;

export function operationsMetrics(
  registry: MetricsRegistry,
  http: HttpMetrics = httpMetrics(registry),
  exposition: Exposition = registry,
  resources: BoundedResources = resourceMetrics(registry),
) {
  const registers = [registry];
  return {
    ...http,
    exposition,
    resources,
    ...groupLagMetrics(registers),
    ...ledgerMetrics(registers),
    ...replicaMetrics(registers),
    partitionParts: new Gauge({
      name: 'questlog_clickhouse_partition_parts',
      help: 'Active parts in the partition with the most parts, by table. ClickHouse delays inserts above 1,000 parts, and rejects inserts above 3,000.',
      labelNames: ['table'],
      registers,
    }),
    deduplicationWindow: new Gauge({
      name: 'questlog_clickhouse_deduplication_window_inserts',
      help: 'Number of newest inserts of a table whose repetitions ClickHouse detects.',
      labelNames: ['table'],
      registers,
    }),
    tableBytes: new Gauge({
      name: 'questlog_clickhouse_table_bytes',
      help: 'Bytes of a table on the disk of ClickHouse.',
      labelNames: ['table'],
      registers,
    }),
    deadLettersOpen: new Gauge({
      name: 'questlog_dead_letters_open',
      help: 'Dead letters that were neither replayed nor discarded, by consumer group. Groups of other programs count as `other`.',
      labelNames: ['group'],
      registers,
    }),
  };
}

function ledgerMetrics(registers: MetricsRegistry[]) {
  return {
    ledgerDifference: new Gauge({
      name: 'questlog_ledger_difference_events',
      help: 'Accepted events of the last day that are missing in ClickHouse, without duplicates, dead letters, and unprojected events.',
      registers,
    }),
    ledgerDifferenceAge: new Gauge({
      name: 'questlog_ledger_difference_age_seconds',
      help: 'Age of the oldest minute that `questlog_ledger_difference_events` counts, or 0.',
      registers,
    }),
  };
}

function replicaMetrics(registers: MetricsRegistry[]) {
  const of = { labelNames: ['node', 'shard'] as const, registers };
  return {
    replicaReachable: new Gauge({
      name: 'questlog_clickhouse_replica_reachable',
      help: '1 if a node of the ClickHouse cluster answers and has tables, otherwise 0. `shard` is empty until the node has answered once.',
      ...of,
    }),
    replicaReadOnly: new Gauge({
      name: 'questlog_clickhouse_replica_read_only_tables',
      help: 'Tables that reject inserts on a node of the ClickHouse cluster.',
      ...of,
    }),
    replicaWithoutKeeper: new Gauge({
      name: 'questlog_clickhouse_replica_expired_keeper_sessions',
      help: 'Tables of a node of the ClickHouse cluster that have no session of Keeper.',
      ...of,
    }),
    replicaLag: new Gauge({
      name: 'questlog_clickhouse_replica_lag_seconds',
      help: 'Replication lag of the tables on a node of the ClickHouse cluster that are not read-only.',
      ...of,
    }),
    replicaQueue: new Gauge({
      name: 'questlog_clickhouse_replica_queue_length',
      help: 'Changes that a node of the ClickHouse cluster has not applied yet, such as new parts and merges.',
      ...of,
    }),
    replicaClockDifference: new Gauge({
      name: 'questlog_clickhouse_replica_clock_difference_seconds',
      help: 'Minimum difference between the clocks of a node of the ClickHouse cluster and of the operations process.',
      ...of,
    }),
    shardUsable: new Gauge({
      name: 'questlog_clickhouse_shard_usable',
      help: '1 if a shard of the ClickHouse cluster has enough usable replicas for an `operation` (`read` or `write`), otherwise 0.',
      labelNames: ['shard', 'operation'],
      registers,
    }),
    shardQuorumLowered: new Gauge({
      name: 'questlog_clickhouse_shard_quorum_lowered',
      help: '1 if an operator has lowered the quorum of a shard of the ClickHouse cluster, otherwise 0.',
      labelNames: ['shard'],
      registers,
    }),
  };
}

function groupLagMetrics(registers: MetricsRegistry[]) {
  const of = { labelNames: ['group', 'topic'] as const, registers };
  return {
    groupLagRecords: new Gauge({
      name: 'questlog_group_lag_records',
      help: 'Records that a consumer group has not processed yet.',
      ...of,
    }),
    groupLagSeconds: new Gauge({
      name: 'questlog_group_lag_seconds',
      help: 'Age of the oldest record that a consumer group has not processed yet, accurate to 10 s. The metric is absent if the log did not return this record.',
      ...of,
    }),
    groupLagRatio: new Gauge({
      name: 'questlog_group_lag_retention_ratio',
      help: 'Age of the oldest unprocessed record, divided by the retention time of the topic. If the value reaches 1, records are lost.',
      ...of,
    }),
    groupLagTime: new Gauge({
      name: 'questlog_group_lag_timestamp_seconds',
      help: 'Time at which the lag was last read from the log, normally every 10 s. `time()` minus this value is the age of the lag metrics.',
      ...of,
    }),
  };
}
