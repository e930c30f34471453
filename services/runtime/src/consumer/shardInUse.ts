/** Decides when the owner of a log partition may insert rows into another ClickHouse shard (decision 0063). */
import type { PartitionShard } from '../clickhouse/cluster/partitions/shardAssignments.ts';
import type { CommitMetadata } from '../log/projection/commitMetadata.ts';

export interface ShardOfPartition {
  /** Reads the shard from ClickHouse. */
  latest(): Promise<PartitionShard>;
  /** Returns the shard that the process has read in the last seconds. */
  recent(): PartitionShard;
}

/**
 * Shard into which the owner of a partition inserts rows. Commits contain the name of the shard, so that a new owner knows
 * whether an insert of the previous owner can still take effect on another shard.
 */
export class ShardInUse {
  readonly #source: ShardOfPartition;
  readonly #hasCommit: boolean;
  #name: string | undefined;

  /** @param committed undefined if the group has no commit */
  constructor(source: ShardOfPartition, committed: CommitMetadata | undefined) {
    this.#source = source;
    this.#hasCommit = committed !== undefined;
    this.#name = committed?.shard;
  }

  /** Name for commits and inserts. Undefined until the first shard is chosen, unless a commit names a shard. */
  get name(): string | undefined {
    return this.#name;
  }

  latest(): Promise<PartitionShard> {
    return this.#source.latest();
  }

  recent(): PartitionShard {
    return this.#source.recent();
  }

  /** True if an insert of this process or of a previous owner can still take effect on another shard. */
  isOtherThan({ shard, shards: [first, ...others] }: PartitionShard): boolean {
    // Without a commit, the previous owner can have used each shard. A commit without a shard was made before the first move.
    if (this.#name === undefined && !this.#hasCommit) return others.length > 0;
    return shard !== (this.#name ?? first);
  }

  use({ shard }: PartitionShard): void {
    this.#name = shard;
  }
}
