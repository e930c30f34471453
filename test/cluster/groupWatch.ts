/** Watches the commits of a consumer group, and since when they have not changed. */
import type { Log } from '@questlog/runtime/log/log';

export interface WatchedGroup {
  /** Group without the prefix of the deployment. */
  readonly group: string;
  readonly topic: string;
}

interface Place {
  committed: number;
  /** Time, by `performance.now()`, since when the group has been idle or stuck at this offset. */
  stillSinceMs: number;
  isBehind: boolean;
}

export class GroupWatch {
  readonly #log: Log;
  readonly #of: WatchedGroup;
  readonly #places: Place[] = [];

  constructor(log: Log, of: WatchedGroup) {
    this.#log = log;
    this.#of = of;
  }

  get name(): string {
    return `${this.#of.group} of ${this.#of.topic}`;
  }

  /** Committed offset of each partition at the last poll. */
  get committed(): readonly number[] {
    return this.#places.map(({ committed }) => committed);
  }

  /** Partitions with lag at the last poll, as sentences. */
  get behind(): readonly string[] {
    const nowMs = performance.now();
    return this.#places.flatMap(({ isBehind, committed, stillSinceMs }, partition) =>
      isBehind
        ? [`${this.name}, partition ${partition}, at ${committed} for ${Math.round(nowMs - stillSinceMs)} ms`]
        : [],
    );
  }

  /** Polls the brokers. Returns true if the group has no lag, or undefined if the brokers did not respond. */
  async look(): Promise<boolean | undefined> {
    const { group, topic } = this.#of;
    // Reads the commits first, so that new records in between can only increase the measured lag.
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
    const place = this.#places[partition];
    const isBehind = committed < end;
    if (place === undefined) {
      this.#places[partition] = { committed, stillSinceMs: nowMs, isBehind };
      return;
    }
    if (!place.isBehind || committed > place.committed) place.stillSinceMs = nowMs;
    place.committed = committed;
    place.isBehind = isBehind;
  }
}
