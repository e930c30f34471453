/** Chance for the tests of the guard: the same numbers for the same seed. */

/** A whole number from 0 up to, and without, `below`. */
export type Random = (below: number) => number;

/** mulberry32: small, and the same everywhere. */
export function randomFrom(start: number): Random {
  let state = start >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

export function pick<T>(random: Random, from: readonly T[]): T {
  const item = from[random(from.length)];
  if (item === undefined) throw new Error('nothing to pick from');
  return item;
}
