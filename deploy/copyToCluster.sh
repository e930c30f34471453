#!/usr/bin/env bash
# Copies tables of one ClickHouse server to a cluster (docs/operating/runbooks/cluster-move.md). The arguments are the tables.
# Without arguments, copies all tables except tables of the migrations and of the cluster, and except `reject_counts` and
# `received_by_process`, because ingests write to both tables during the move. Then compares the numbers of events. Environment:
#   DATABASE     database of the cluster
#   NODES        one node of each shard, separated by spaces
#   OLD          arguments of the table function `remote` for the old server and its database
#   OLD_ACCOUNT  arguments of the table function `remote` for the user and the password
#   CLICKHOUSE_USER, CLICKHOUSE_PASSWORD  account of clickhouse-client on the cluster
set -euo pipefail

read -r NODE _ <<<"$NODES"

# Passes the statement by standard input, because every user of the machine can read command-line arguments.
run() { # node, statement
  clickhouse-client --host "$1" <<<"$2"
}

copy() { # node, table of the cluster, table of the old server, condition
  echo "copying $3 to $1"
  # Disables deduplication, because ClickHouse would otherwise drop a block whose rows equal the rows of an earlier block.
  run "$1" "INSERT INTO $DATABASE.$2
    SETTINGS insert_deduplicate = 0, deduplicate_insert = 'disable', insert_quorum = 'auto', max_partitions_per_insert_block = 0
    SELECT * FROM remote($OLD, '$3', $OLD_ACCOUNT) WHERE $4"
}

copyToAll() { # table that every node has
  copy "$NODE" "$1" "$1" 1
}

# Counts the events on the nodes that receive the copied events, because other replicas can lack events for a short time.
countEvents() {
  local total=0 node
  for node in $NODES; do total=$((total + $(run "$node" "SELECT count() FROM $DATABASE.events_local"))); done
  echo "$total"
}

if [ $# -gt 0 ]; then
  for table; do copyToAll "$table"; done
  exit
fi
if [ "$(countEvents)" != 0 ]; then
  echo "the cluster already has events" >&2
  exit 1
fi
for node in $NODES; do
  for table in events appends erased_events; do
    # The newest row of a log partition names its shard.
    copy "$node" "${table}_local" "$table" "log_partition GLOBAL IN (SELECT log_partition FROM $DATABASE.partition_shards
      GROUP BY log_partition HAVING argMax(shard, version) = getMacro('shard'))"
  done
done
others=$(run "$NODE" "SELECT table FROM system.replicas WHERE database = '$DATABASE' AND zookeeper_path LIKE '%/all'
  AND table NOT IN ('schema_migrations', 'partition_shards', 'shard_quorums', 'restore_marker', 'reject_counts',
    'received_by_process')")
for table in $others; do copyToAll "$table"; done
copied=$(countEvents)
stored=$(run "$NODE" "SELECT count() FROM remote($OLD, 'events', $OLD_ACCOUNT)")
if [ "$copied" != "$stored" ]; then
  echo "the cluster has $copied events, but the old server has $stored" >&2
  exit 1
fi
echo "the cluster has all $copied events"
