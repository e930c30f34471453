/** Time as a dependency, so that tests move it by hand and `core/` never asks for it. */
export interface Clock {
  /** Milliseconds since the Unix epoch, UTC. */
  now(): number;
}

export const systemClock: Clock = { now: Date.now };
