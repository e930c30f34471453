/**
 * The kinds of failure that the code tells apart. Whatever is none of them is a bug and ends the process, so that a
 * supervisor starts a clean one instead of a half-broken one going on.
 */

/** A record that can never be processed as it is: it goes to the dead letters, what is behind it goes on. */
export class Invalid extends Error {
  override readonly name = 'Invalid';
}

/** A dependency (log, ClickHouse, registry) does not answer or cannot take more: back off and try again. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable';
  /** Seconds after which another try makes sense; answered as `Retry-After`. */
  readonly retryAfterS: number;

  constructor(message: string, options: ErrorOptions & { retryAfterS?: number } = {}) {
    super(message, options);
    this.retryAfterS = options.retryAfterS ?? 1;
  }
}

/** This process lost a partition or a transactional id to another: it must stop writing on its behalf at once. */
export class Fenced extends Error {
  override readonly name = 'Fenced';
}

/** The start cannot go on (a taken port, a held directory, a bad setting): one line for the operator, exit code 1. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused';
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
