/**
 * Reads the table `partition_shards`, which names the shard of each log partition. A move of a partition adds a row to the table
 * and copies no events. Therefore, each shard that has ever had a partition can have rows of this partition (decision 0063).
 */
import type { Clock } from '../../../process/clock.ts';
import { Unavailable } from '../../../process/errors.ts';
import { coalesceCalls } from '../../../process/waiting.ts';
import type { Store } from '../../store.ts';
import { PARTITION_SHARDS } from '../tables/clusterSchema.ts';
import type { ListedPartition, ShardAssignments } from './shardAssignments.ts';

/** One row of `partition_shards`. The first row of a partition has version 0. */
interface Assignment {
  readonly partition: number;
  readonly version: number;
  readonly shard: string;
  readonly takesEffectAtMs: string;
}

/** Two moves at the same time can have the same version, so the shard decides the order of their rows. */
const SELECT_ASSIGNMENTS = `SELECT log_partition AS partition, version, shard,
    toUnixTimestamp64Milli(min(takes_effect_at)) AS takesEffectAtMs
  FROM ${PARTITION_SHARDS} GROUP BY log_partition, version, shard ORDER BY log_partition, version, shard`;

export class PartitionShards implements ShardAssignments {
  readonly #clock: Clock;
  readonly refresh: () => Promise<void>;
  #assignments: ReadonlyMap<number, readonly Assignment[]> = new Map();

  constructor(store: Pick<Store, 'query'>, clock: Clock) {
    this.#clock = clock;
    this.refresh = coalesceCalls(async () => {
      const rows = await store.query<Assignment>(SELECT_ASSIGNMENTS);
      this.#assignments = Map.groupBy(rows, ({ partition }) => partition);
    });
  }

  all(): readonly string[] {
    return [...new Set([...this.#assignments.values()].flat().map(({ shard }) => shard))].sort();
  }

  of(partition: number): ListedPartition {
    const assignments = this.#assignments.get(partition);
    const last = assignments?.at(-1);
    if (assignments === undefined || last === undefined)
      throw new Unavailable(`ClickHouse: partition ${partition} has no shard`);
    const now = this.#clock.now();
    const inEffect = assignments.findLast(({ takesEffectAtMs }) => Number(takesEffectAtMs) <= now);
    return {
      partition,
      shard: (inEffect ?? last).shard,
      shards: [...new Set(assignments.map(({ shard }) => shard))],
      lastShard: last.shard,
      lastVersion: last.version,
      takesEffectAtMs: Number(last.takesEffectAtMs),
    };
  }
}
