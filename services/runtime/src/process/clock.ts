/** Time as a dependency, so that tests move it by hand and `core/` never asks for it. */
export interface Clock {
  /** Milliseconds since the Unix epoch, UTC. */
  now(): number;
}

export const systemClock: Clock = { now: Date.now };

/** For how long something takes or may take: nobody sets it, and its times mean nothing outside the process. */
export const steadyClock: Clock = performance;
