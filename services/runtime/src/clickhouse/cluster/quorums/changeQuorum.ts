/** Lowers the quorum of a shard, and restores the quorum after enough replicas have all rows again. */
import { messageOf, Unavailable } from '../../../process/errors.ts';
import type { Store } from '../../store.ts';
import { type ReplicaSet, syncTables } from '../quorumStore.ts';
import { quoted, SHARD_QUORUMS } from '../tables/clusterSchema.ts';
import { QUORUM_VALID_MS, quorumOf, type ShardQuorums } from './shardQuorums.ts';

export interface QuorumDeps extends Pick<Store, 'insertsEndWithinMs'>, Required<Pick<Store, 'nodes'>> {
  /** Runs an `INSERT … SELECT` on a node that has all rows. */
  readonly insertSelect: Store['command'];
  readonly quorums: ShardQuorums;
  readonly tablesOf: ReplicaSet['tablesOf'];
}

/**
 * Adds a row to `shard_quorums`, unless the shard already has this quorum. A lowered quorum takes effect when each process has
 * read the row. A restored quorum takes effect later, because an insert with the lowered quorum can still be running.
 * @throws Unavailable if the quorum is restored, and too few replicas have all rows
 */
export async function changeQuorum(deps: QuorumDeps, shard: string, quorum: number): Promise<void> {
  const { quorums, nodes, insertsEndWithinMs } = deps;
  await quorums.refresh();
  const current = quorums.list().find((each) => each.shard === shard);
  const isLowered = quorum < quorums.fullQuorumOf(shard);
  // Checks the replicas also if the quorum was already restored, because a replica can have failed after the first check.
  if (!isLowered) await requireCompleteReplicas(deps, shard, quorum);
  if (current?.quorum === quorum) return;
  const unavailable = isLowered ? (current?.replicas ?? 1) - quorum : 0;
  const delayMs = QUORUM_VALID_MS + (isLowered ? 0 : insertsEndWithinMs);
  await deps.insertSelect(
    `INSERT INTO ${SHARD_QUORUMS} (shard, version, quorum, takes_effect_at)
     SELECT ${quoted(shard)}, max(version) + 1, ${quorum}, now64(3) + toIntervalMillisecond(${delayMs})
     FROM ${SHARD_QUORUMS} WHERE shard = ${quoted(shard)}`,
    { insert_quorum: quorumOf(nodes().length - unavailable) },
  );
  await quorums.refresh();
}

async function requireCompleteReplicas(
  { nodes, tablesOf }: QuorumDeps,
  shard: string,
  quorum: number,
): Promise<void> {
  const tables = [...new Set([...tablesOf.values()].flat())];
  const replicas = nodes().filter((node) => node.shard === undefined || node.shard === shard);
  const failures: string[] = [];
  for (const { name, store: replica } of replicas) {
    try {
      if (replica === undefined) throw new Unavailable('does not answer');
      await syncTables(replica, tables);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      failures.push(`${name}: ${messageOf(error)}`);
    }
  }
  const complete = replicas.length - failures.length;
  if (complete < quorum)
    throw new Unavailable(
      `ClickHouse: ${complete} of ${quorum} replicas of shard ${shard} have all rows: ${failures.join('; ')}`,
    );
}
