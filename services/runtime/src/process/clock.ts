/** Clocks that a module receives as a dependency. Tests use a clock that they move; modules in `core/` receive times as data. */
export interface Clock {
  now(): number;
}

export const systemClock: Clock = { now: Date.now };

/** Monotonic clock for durations. Its values have no meaning outside the process. */
export const steadyClock: Clock = performance;
