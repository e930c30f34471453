/** Generates reproducible random numbers. */
import { uuidV8 } from '@questlog/schemas/uuid';

export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Returns a number from 0 (inclusive) to 1 (exclusive). Uses mulberry32, which has a full period of 2^32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  integer(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  pick<T>(first: T, ...others: readonly T[]): T {
    return others[this.integer(-1, others.length - 1)] ?? first;
  }

  uuid(): string {
    return uuidV8(Buffer.from(Array.from({ length: 16 }, () => this.integer(0, 255))));
  }

  split(): SeededRandom {
    return new SeededRandom(Math.floor(this.next() * 2 ** 32));
  }
}
