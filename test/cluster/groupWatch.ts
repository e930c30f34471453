/** Watches the committed offsets of a consumer group, and measures how long they have not changed. */
import type { Log } from '@questlog/runtime/log/log';

export interface WatchedGroup {
  /** Name of the consumer group without the prefix of the deployment. */
  readonly group: string;
  readonly topic: string;
}

interface WatchedPartition {
  committed: number;
  /** Time of the last progress as a value of `performance.now()`. A partition without lag counts as progress at each poll. */
  unchangedSinceMs: number;
  isBehind: boolean;
}

export class GroupWatch {
  readonly #log: Log;
  readonly #of: WatchedGroup;
  readonly #partitions: WatchedPartition[] = [];

  constructor(log: Log, of: WatchedGroup) {
    this.#log = log;
    this.#of = of;
  }

  get name(): string {
    return `${this.#of.group} of ${this.#of.topic}`;
  }

  /** Committed offset of each partition at the time of the last poll. */
  get committed(): readonly number[] {
    return this.#partitions.map(({ committed }) => committed);
  }

  /** Partitions that had lag at the last poll, described in sentences. */
  get behind(): readonly string[] {
    const nowMs = performance.now();
    return this.#partitions.flatMap(({ isBehind, committed, unchangedSinceMs }, partition) =>
      isBehind
        ? [
            `${this.name}, partition ${partition}, at ${committed} for ${Math.round(nowMs - unchangedSinceMs)} ms`,
          ]
        : [],
    );
  }

  /** Polls the brokers. Returns true if the group has no lag. Returns undefined if the brokers did not respond. */
  async poll(): Promise<boolean | undefined> {
    const { group, topic } = this.#of;
    // Reads the committed offsets before the end offsets. New records between the two reads can then only increase the measured
    // lag.
    const committed = await this.#log.committed(group, topic).catch(() => undefined);
    const ends = await this.#log.endOffsets(topic).catch(() => undefined);
    if (committed === undefined || ends === undefined) return undefined;
    const nowMs = performance.now();
    for (const [partition, end] of ends.entries()) {
      this.#note(partition, committed[partition]?.offset ?? 0, end, nowMs);
    }
    return ends.every((end, partition) => (committed[partition]?.offset ?? 0) >= end);
  }

  #note(partition: number, committed: number, end: number, nowMs: number): void {
    const watched = this.#partitions[partition];
    const isBehind = committed < end;
    if (watched === undefined) {
      this.#partitions[partition] = { committed, unchangedSinceMs: nowMs, isBehind };
      return;
    }
    if (!watched.isBehind || committed > watched.committed) watched.unchangedSinceMs = nowMs;
    watched.committed = committed;
    watched.isBehind = isBehind;
  }
}
