/**
 * Keeps what a member may believe of its partitions: pure bookkeeping over what kafkajs tells. It tells of an assignment
 * without its generation (`join`), and of the generation with the next heartbeat. A member needs both to commit. Only an
 * unbroken row of generations proves that a partition was nobody else's in between.
 */

/** A member's commits name it. */
export interface Generation {
  readonly memberId: string;
  readonly number: number;
}

interface Joined {
  readonly memberId: string;
  readonly partitions: ReadonlySet<number>;
  /** Rebalances since the current generation. */
  readonly joins: number;
  /** Heartbeats of the current generation since the last of them. */
  repeats: number;
}

export class Generations {
  #current: Generation | undefined;
  #joined: Joined | undefined;
  readonly #owned = new Set<number>();

  /** Undefined until the first heartbeat, and after `leave`. */
  get current(): Generation | undefined {
    return this.#current;
  }

  /** Nothing is known of the generation that was joined last. */
  get isSettled(): boolean {
    return this.#current !== undefined && this.#joined === undefined;
  }

  /** Returns the partitions that are lost by it. */
  join(memberId: string, partitions: readonly number[]): number[] {
    const isSame = this.#current?.memberId === memberId;
    const lost = isSame ? this.#drop((one) => !partitions.includes(one)) : this.leave();
    const joins = (this.#joined?.joins ?? 0) + 1;
    this.#joined = { memberId, partitions: new Set(partitions), joins, repeats: 0 };
    return lost;
  }

  /** Undefined when it tells nothing new. A partition may be both lost and gained: then it was another's in between. */
  heartbeat(memberId: string, number: number): { lost: number[]; gained: number[] } | undefined {
    const [current, joined] = [this.#current, this.#joined];
    const isSame = this.#isRepeatedGeneration(memberId, number);
    if (current?.memberId === memberId && number <= current.number && !isSame) return undefined;
    if (joined === undefined) {
      if (current?.memberId !== memberId) return undefined;
      // The heartbeat before was one of the generation before, sent before the join and answered after it.
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

  /** Returns the partitions that are lost by it: all. */
  leave(): number[] {
    this.#current = undefined;
    this.#joined = undefined;
    return this.#drop(() => true);
  }

  owned(): number[] {
    return [...this.#owned].sort((a, b) => a - b);
  }

  /**
   * The brokers give the present generation again to a member that joins again and brings nothing new, for instance when
   * the coordinator has moved. A first such heartbeat may be a late one, sent before the join.
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
