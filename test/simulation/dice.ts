/** Random choices that depend only on a seed. */
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

  /** Returns an integer of the range, both ends inclusive. */
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

  /** Runs one of the actions, chosen by weight, and returns its result. */
  oneOf<T>(actions: readonly (readonly [weight: number, run: () => T])[]): T | undefined {
    let left = this.#random.next() * actions.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, run] of actions) {
      left -= weight;
      if (left < 0) return run();
    }
    return undefined;
  }

  uuid(): string {
    return uuidV8(this.bytes(16));
  }

  eventId(millis: number, lane: number): string {
    return eventId(millis, lane, this.bytes(8));
  }

  bytes(count: number): Buffer {
    return this.fill(Buffer.allocUnsafe(count));
  }

  fill(buffer: Buffer): Buffer {
    for (let i = 0; i < buffer.length; i++) buffer[i] = this.#random.between(0, 255);
    return buffer;
  }
}
