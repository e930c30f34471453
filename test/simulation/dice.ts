/** Random draws that a seed repeats. */
import { eventId, uuidV8 } from '@questlog/schemas/uuid';
import { type Random, seeded } from '../faults/seeded.ts';

export class Dice {
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = seeded(seed);
  }

  chance(share: number): boolean {
    return this.#random.chance(share);
  }

  /** A number of the range, both ends included. */
  between(least: number, most: number): number {
    return this.#random.between(least, most);
  }

  from<T>(values: readonly T[]): T {
    const value = this.maybe(values);
    if (value === undefined) throw new Error('there is nothing to draw from');
    return value;
  }

  maybe<T>(values: readonly T[]): T | undefined {
    return values[Math.floor(this.#random.next() * values.length)];
  }

  /** Runs one of the actions, chosen by weight. */
  oneOf(actions: readonly (readonly [weight: number, run: () => unknown])[]): void {
    let left = this.#random.next() * actions.reduce((sum, [weight]) => sum + weight, 0);
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
