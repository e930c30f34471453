/**
 * Reads the table `shard_quorums`. An operator lowers the quorum of a shard if too few replicas of the shard are available, and
 * restores the quorum later (decision 0067).
 */
import type { Clock } from '../../../process/clock.ts';
import { coalesceCalls } from '../../../process/waiting.ts';
import type { Store } from '../../store.ts';
import type { Member } from '../clusterMembers.ts';
import { SHARD_QUORUMS } from '../tables/clusterSchema.ts';
import type { QuorumList, ShardQuorum } from './quorumList.ts';

interface QuorumChange {
  readonly shard: string;
  readonly quorum: number;
  readonly takesEffectAtMs: string;
}

/** If two changes have the same version, the higher quorum applies, because its row is the last row of the shard. */
const SELECT_CHANGES = `SELECT shard, version, quorum, toUnixTimestamp64Milli(takes_effect_at) AS takesEffectAtMs
  FROM ${SHARD_QUORUMS} ORDER BY shard, version, quorum`;

const MAX_QUORUM = 2;
/** Time after which a process that cannot read `shard_quorums` no longer uses a lowered quorum. */
export const QUORUM_VALID_MS = 15_000;

/** Returns the number of nodes that must have a row if no quorum is lowered. */
export function quorumOf(nodes: number): number {
  return Math.min(MAX_QUORUM, nodes);
}

export class ShardQuorums implements QuorumList {
  readonly refresh: () => Promise<void>;
  readonly #members: () => readonly Pick<Member, 'shard' | 'replicas'>[];
  readonly #clock: Clock;
  #changes: ReadonlyMap<string, QuorumChange> = new Map();
  #readAtMs = Number.NEGATIVE_INFINITY;

  /** @param store store that reads from any node that has all rows */
  constructor(
    store: Pick<Store, 'query'>,
    members: () => readonly Pick<Member, 'shard' | 'replicas'>[],
    clock: Clock,
  ) {
    this.#members = members;
    this.#clock = clock;
    this.refresh = coalesceCalls(async () => {
      const startedAtMs = clock.now();
      const rows = await store.query<QuorumChange>(SELECT_CHANGES);
      this.#changes = new Map(rows.map((row) => [row.shard, row]));
      this.#readAtMs = startedAtMs;
    });
  }

  list(): ShardQuorum[] {
    const shards = [...new Set(this.#members().map(({ shard }) => shard))].sort();
    return shards.map((shard) => {
      const change = this.#changes.get(shard);
      const replicas = this.#replicasOf(shard);
      const quorum = Math.min(quorumOf(replicas), change?.quorum ?? MAX_QUORUM);
      return { shard, replicas, quorum, takesEffectAtMs: Number(change?.takesEffectAtMs ?? 0) };
    });
  }

  /**
   * True if an operator has lowered the quorum of the shard to one replica. False if the latest read of `shard_quorums` is older
   * than `QUORUM_VALID_MS`.
   */
  isLowered(shard: string): boolean {
    const isRecent = this.#clock.now() - this.#readAtMs <= QUORUM_VALID_MS;
    return isRecent && (this.#changes.get(shard)?.quorum ?? MAX_QUORUM) < this.fullQuorumOf(shard);
  }

  /** Returns the number of replicas of the shard that must have a row. */
  ofShard(shard: string): number {
    return this.isLowered(shard) ? 1 : this.fullQuorumOf(shard);
  }

  /** Returns the quorum that applies to the shard if no operator has lowered the quorum. */
  fullQuorumOf(shard: string): number {
    return quorumOf(this.#replicasOf(shard));
  }

  /** Returns the number of nodes that must have a row of a table that all nodes have. */
  ofAllNodes(nodes: number): number {
    const shards = [...this.#changes.keys()].filter((shard) => this.isLowered(shard));
    return quorumOf(shards.reduce((needed, shard) => needed - (this.#replicasOf(shard) - 1), nodes));
  }

  #replicasOf(shard: string): number {
    const replicas = this.#members().filter((member) => member.shard === shard);
    return Math.max(1, ...replicas.map((member) => member.replicas));
  }
}
