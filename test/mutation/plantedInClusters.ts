/** Planted bugs in code that decides which rows of a ClickHouse cluster are stored. */
import type { PlantedBug } from './plantedBugs.ts';

const CLUSTER = 'services/runtime/src/clickhouse/cluster';
const QUORUM_STORE = `${CLUSTER}/quorumStore.ts`;
const QUORUM_STORE_TEST = `${CLUSTER}/quorumStore.test.ts`;
const CLUSTER_READS = `${CLUSTER}/clusterReads.ts`;
const CLUSTER_STORE_TEST = `${CLUSTER}/clusterStore.test.ts`;

export const PLANTED_IN_CLUSTERS: readonly PlantedBug[] = [
  {
    name: 'rows of one replica count as stored',
    lost: 'events are lost with the only replica that had them',
    file: QUORUM_STORE,
    text: 'return await onQuorum(set, async (store) => {',
    by: 'return await onAnyReplica(async (store) => {',
    tests: [QUORUM_STORE_TEST],
  },
  {
    name: 'replicas read before they have all parts',
    lost: 'rows that two lagging replicas lack are stored and counted twice',
    file: QUORUM_STORE,
    text: 'await syncTables(store, tables);',
    by: '',
    tests: [QUORUM_STORE_TEST],
  },
  {
    name: 'insert confirmed by one replica',
    lost: 'the events of an insert are lost with the replica that received the insert',
    file: `${CLUSTER}/clusterMembers.ts`,
    text: 'return Math.min(MAX_QUORUM, nodes);',
    by: 'return Math.min(1, nodes);',
    tests: [CLUSTER_STORE_TEST],
  },
  {
    name: 'query on a node that lacks rows',
    lost: 'a request with an idempotency key is stored twice, because a lagging node lacks its first events',
    file: CLUSTER_READS,
    text: 'if (await sync(member, tables)) return',
    by: 'return',
    tests: [CLUSTER_STORE_TEST],
  },
  {
    name: 'result of a lagging replica accepted',
    lost: 'a report misses links to events, because ClickHouse read them from a lagging replica',
    file: CLUSTER_READS,
    text: 'if (synced.length < deps.size) await rejectOtherReplicas(node, deps, synced);',
    by: '',
    tests: [CLUSTER_STORE_TEST],
  },
];
