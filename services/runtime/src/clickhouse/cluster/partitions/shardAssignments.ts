/** Interface for the shards of the log partitions on a ClickHouse cluster. */

export interface PartitionShard {
  /** Shard that gets new rows. */
  readonly shard: string;
  /** Shards that can have rows of the partition. The first shard had the partition first. */
  readonly shards: readonly string[];
}

export interface ListedPartition extends PartitionShard {
  readonly partition: number;
  /** Shard of the last move, also before the move takes effect. */
  readonly lastShard: string;
  readonly lastVersion: number;
  /** Time at which the last move takes effect. 0 if the partition was never moved. */
  readonly takesEffectAtMs: number;
}

export interface ShardAssignments {
  /** Reads the assignments again. Finds each move that a quorum of nodes has stored before the call. */
  refresh(): Promise<void>;
  /** @throws Unavailable if the partition has no shard. */
  of(partition: number): ListedPartition;
  /** Returns all shards that have or had a partition. */
  all(): readonly string[];
}
