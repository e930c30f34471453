/** Interface for the quorums of the shards of a ClickHouse cluster. */

export interface ShardQuorum {
  readonly shard: string;
  readonly replicas: number;
  /** Number of replicas that must have a row. */
  readonly quorum: number;
  /** Time at which the last change takes effect in all processes. 0 if the quorum was never changed. */
  readonly takesEffectAtMs: number;
}

export interface QuorumList {
  /** Reads the changes again. */
  refresh(): Promise<void>;
  /** Returns the shards that have answered since the start, each with the quorum that the operator wants. */
  list(): ShardQuorum[];
}
