/** Watches a consumer group by its commits: how far it is, and since which look it stands still there. */
import type { Log } from '@questlog/runtime/log/log';

export interface WatchedGroup {
  /** Group and topic without the deployment's prefix. */
  readonly group: string;
  readonly topic: string;
}

interface Place {
  committed: number;
  /** By `performance.now()`: since when the group has been idle or stuck there. */
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

  /** Of each partition, by the last look. */
  get committed(): readonly number[] {
    return this.#places.map(({ committed }) => committed);
  }

  /** Where it has lag by the last look, in words. */
  get behind(): readonly string[] {
    const nowMs = performance.now();
    return this.#places.flatMap(({ isBehind, committed, stillSinceMs }, partition) =>
      isBehind
        ? [`${this.name}, partition ${partition}, at ${committed} for ${Math.round(nowMs - stillSinceMs)} ms`]
        : [],
    );
  }

  /** @returns whether it has no lag, as the brokers told; undefined: they did not. */
  async look(): Promise<boolean | undefined> {
    const { group, topic } = this.#of;
    // In this order, records that come in between make the group look further behind, never ahead.
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
