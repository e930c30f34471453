/** Chance that a seed repeats (mulberry32). */
import { eventId, uuidV8 } from '@questlog/schemas/uuid';

export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000;
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  /** Both ends inside. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  from<T>(values: readonly T[]): T {
    const value = this.maybe(values);
    if (value === undefined) throw new Error('there is nothing to draw from');
    return value;
  }

  maybe<T>(values: readonly T[]): T | undefined {
    return values[Math.floor(this.next() * values.length)];
  }

  /** Runs one of the actions, by their weights. */
  oneOf(actions: readonly (readonly [weight: number, run: () => unknown])[]): void {
    let left = this.next() * actions.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, run] of actions) {
      left -= weight;
      if (left >= 0) continue;
      run();
      return;
    }
  }

  uuid(): string {
    return uuidV8(this.#bytes(16));
  }

  eventId(millis: number, lane: number): string {
    return eventId(millis, lane, this.#bytes(8));
  }

  #bytes(count: number): Buffer {
    return Buffer.from(Array.from({ length: count }, () => this.between(0, 255)));
  }
}
