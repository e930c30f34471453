/**
 * Tracks the generation and the partitions of a member. Pure.
 * kafkajs reports an assignment without its generation (`join`) and the generation with the next heartbeat. A commit needs both
 * the assignment and the generation. If the member missed no generation, no other member has owned its partitions in between.
 */

export interface Generation {
  readonly memberId: string;
  readonly number: number;
}

interface Joined {
  readonly memberId: string;
  readonly partitions: ReadonlySet<number>;
  /** Number of joins since the current generation. */
  readonly joins: number;
  /** Number of heartbeats of the current generation since the last join. */
  repeats: number;
}

export class Generations {
  #current: Generation | undefined;
  #joined: Joined | undefined;
  readonly #owned = new Set<number>();

  /** Current generation. Undefined until the first heartbeat, and after `leave`. */
  get current(): Generation | undefined {
    return this.#current;
  }

  /** True if the generation of the last join is known. */
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

  /**
   * Returns the lost and the gained partitions, or undefined. A partition that is both lost and gained had another owner in
   * between.
   */
  heartbeat(memberId: string, number: number): { lost: number[]; gained: number[] } | undefined {
    const [current, joined] = [this.#current, this.#joined];
    const isSame = this.#isRepeatedGeneration(memberId, number);
    if (current?.memberId === memberId && number <= current.number && !isSame) return undefined;
    if (joined === undefined) {
      if (current?.memberId !== memberId) return undefined;
      // The previous heartbeat was sent before the join and answered after the join.
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

  /**
   * Returns true if the member rejoined the current generation. The first heartbeat with this generation may be older than the
   * join, so it does not count.
   */
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
