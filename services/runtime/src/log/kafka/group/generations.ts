/**
 * Tracks the generation and the partitions of one member of a Kafka consumer group. kafkajs reports an assignment without its
 * generation, so the generation comes from the next heartbeat. A partition that the member keeps in consecutive generations had
 * no other owner in between.
 */

export interface Generation {
  readonly memberId: string;
  readonly number: number;
}

interface Joined {
  readonly memberId: string;
  readonly partitions: ReadonlySet<number>;
  /** Number of times the member joined after the current generation started. */
  readonly joins: number;
  repeats: number;
}

export class Generations {
  #current: Generation | undefined;
  #joined: Joined | undefined;
  readonly #owned = new Set<number>();

  get current(): Generation | undefined {
    return this.#current;
  }

  /** True if the generation of the latest join is known. */
  get isSettled(): boolean {
    return this.#current !== undefined && this.#joined === undefined;
  }

  join(memberId: string, partitions: readonly number[]): number[] {
    const isSame = this.#current?.memberId === memberId;
    const lost = isSame ? this.#drop((one) => !partitions.includes(one)) : this.leave();
    const joins = (this.#joined?.joins ?? 0) + 1;
    this.#joined = { memberId, partitions: new Set(partitions), joins, repeats: 0 };
    return lost;
  }

  /** Returns the lost and gained partitions. A partition is in both lists if another member possibly owned it in between. */
  heartbeat(memberId: string, number: number): { lost: number[]; gained: number[] } | undefined {
    const [current, joined] = [this.#current, this.#joined];
    const isSame = this.#isRepeatedGeneration(memberId, number);
    if (current?.memberId === memberId && number <= current.number && !isSame) return undefined;
    if (joined === undefined) {
      if (current?.memberId !== memberId) return undefined;
      this.#current = { memberId, number };
      return { lost: [], gained: [] };
    }
    if (joined.memberId !== memberId) return undefined;
    const isUnbroken = isSame || (current !== undefined && number === current.number + joined.joins);
    const lost = isUnbroken ? [] : this.#drop(() => true);
    const gained = [...joined.partitions].filter((one) => !this.#owned.has(one));
    for (const one of gained) this.#owned.add(one);
    this.#current = { memberId, number };
    this.#joined = undefined;
    return { lost, gained };
  }

  leave(): number[] {
    this.#current = undefined;
    this.#joined = undefined;
    return this.#drop(() => true);
  }

  owned(): number[] {
    return [...this.#owned].sort((a, b) => a - b);
  }

  /** Requires two heartbeats, because the member can have sent the first heartbeat before the latest join. */
  #isRepeatedGeneration(memberId: string, number: number): boolean {
    const joined = this.#joined;
    if (joined?.memberId !== memberId || number !== this.#current?.number) return false;
    joined.repeats += 1;
    return joined.repeats > 1;
  }

  #drop(isDropped: (partition: number) => boolean): number[] {
    const dropped = [...this.#owned].filter(isDropped);
    for (const one of dropped) this.#owned.delete(one);
    return dropped;
  }
}
