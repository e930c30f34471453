/** Watches a consumer group by its commits: how far it is, when it progressed, how long it paused. */
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

const LOOK_EVERY_MS = 100;

export class GroupWatch {
  /** The longest time, in milliseconds, in which a partition had records and none was processed. */
  longestPauseMs = 0;
  readonly #log: Log;
  readonly #of: WatchedGroup;
  readonly #places: Place[] = [];
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<boolean> | undefined;

  constructor(log: Log, of: WatchedGroup) {
    this.#log = log;
    this.#of = of;
    this.#timer = setInterval(() => {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = undefined;
      });
    }, LOOK_EVERY_MS);
  }

  get name(): string {
    return `${this.#of.group} of ${this.#of.topic}`;
  }

  /** The last sample of each partition. */
  get committed(): readonly number[] {
    return this.#places.map(({ committed }) => committed);
  }

  /** By a sample that is taken for it: a busy machine's last one may be from before the last records came. */
  isCaughtUp(): Promise<boolean> {
    return this.#look();
  }

  /** Where it has lag by the last sample, in words. */
  get behind(): readonly string[] {
    const nowMs = performance.now();
    return this.#places.flatMap(({ isBehind, committed, stillSinceMs }, partition) =>
      isBehind
        ? [`${this.name}, partition ${partition}, at ${committed} for ${Math.round(nowMs - stillSinceMs)} ms`]
        : [],
    );
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  /** @returns whether it has no lag, as the brokers told. */
  async #look(): Promise<boolean> {
    const { group, topic } = this.#of;
    // In this order, records that come in between make the group look further behind, never ahead.
    const committed = await this.#log.committed(group, topic).catch(() => undefined);
    const ends = await this.#log.endOffsets(topic).catch(() => undefined);
    if (committed === undefined || ends === undefined) return false;
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
    if (place.isBehind) this.longestPauseMs = Math.max(this.longestPauseMs, nowMs - place.stillSinceMs);
    if (!place.isBehind || committed > place.committed) place.stillSinceMs = nowMs;
    place.committed = committed;
    place.isBehind = isBehind;
  }
}
