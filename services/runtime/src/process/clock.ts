/** Time as a dependency. Tests move the clock by hand, and `core/` receives times as data. */
export interface Clock {
  now(): number;
}

export const systemClock: Clock = { now: Date.now };

/** Monotonic clock for durations. Its values have no meaning outside the process. */
export const steadyClock: Clock = performance;
