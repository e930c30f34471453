/** The kinds of errors that the code distinguishes. Any other error is a bug and ends the process. */

/** A record that can never be processed. It becomes a dead letter, and processing continues after it. */
export class Invalid extends Error {
  override readonly name = 'Invalid';
}

/** A dependency (log, ClickHouse, registry) that does not respond or is overloaded. Callers back off and retry. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable';
  /** Seconds until a retry makes sense; sent as `Retry-After`. */
  readonly retryAfterS: number;

  constructor(message: string, options: ErrorOptions & { retryAfterS?: number } = {}) {
    super(message, options);
    this.retryAfterS = options.retryAfterS ?? 1;
  }
}

/** This process lost a partition or a transactional id to another process, and must stop writing for it. */
export class Fenced extends Error {
  override readonly name = 'Fenced';
}

/** An error that prevents the start, such as a port in use. The operator sees one line, and the exit code is 1. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused';
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
