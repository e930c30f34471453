/** Panels of the dashboard about ClickHouse that have values only if ClickHouse is a cluster. Their queries are PromQL. */
import { timeseries } from './panels.ts';
import { DEPLOYMENT } from './servicePanels.ts';

export const CLICKHOUSE_CLUSTER = [
  timeseries({
    title: 'Replication lag of a cluster',
    unit: 's',
    ...{ orange: 10, red: 60 },
    queries: { '{{node}}': `max by (node) (questlog_clickhouse_replica_lag_seconds{${DEPLOYMENT}})` },
  }),
  timeseries({
    title: 'Unusable replicas and shards of a cluster',
    unit: 'short',
    ...{ orange: 1, red: 2 },
    queries: {
      unreachable: `sum(max by (node) (questlog_clickhouse_replica_reachable{${DEPLOYMENT}}) == bool 0)`,
      'read-only': `sum(max by (node) (questlog_clickhouse_replica_read_only_tables{${DEPLOYMENT}}) > bool 0)`,
      'with a wrong clock': `sum(max by (node) (questlog_clickhouse_replica_clock_difference_seconds{${DEPLOYMENT}}) > bool 2)`,
      'without Keeper': `sum(max by (node) (questlog_clickhouse_replica_expired_keeper_sessions{${DEPLOYMENT}}) > bool 0)`,
      'lowered quorum, shard {{shard}}': `max by (shard) (questlog_clickhouse_shard_quorum_lowered{${DEPLOYMENT}})`,
      '{{operation}}, shard {{shard}}': `1 - max by (shard, operation) (questlog_clickhouse_shard_usable{${DEPLOYMENT}})`,
    },
  }),
  timeseries({
    title: 'Replication queue of a cluster',
    unit: 'short',
    noThresholds: 'The length depends on the number of merges.',
    queries: { '{{node}}': `max by (node) (questlog_clickhouse_replica_queue_length{${DEPLOYMENT}})` },
  }),
];
