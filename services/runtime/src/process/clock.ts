/** Clock that a module receives as a dependency. Tests use a clock that they control. */
export interface Clock {
  now(): number;
}

export const systemClock: Clock = { now: Date.now };

/** Monotonic clock for durations. The clock's values have no meaning outside the process. */
export const steadyClock: Clock = performance;
