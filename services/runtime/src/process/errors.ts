/** Kinds of errors that the code handles in different ways. Every other error is a bug and ends the process. */

/** Error for a record that can never be processed. The record becomes a dead letter, and the consumer continues. */
export class Invalid extends Error {
  override readonly name = 'Invalid';
}

/** A dependency (log, ClickHouse, registry) does not respond or is overloaded. Callers wait and retry. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable';
  /** Seconds that a client must wait before a retry. The header `Retry-After` contains this number. */
  readonly retryAfterS: number;

  constructor(message: string, options: ErrorOptions & { retryAfterS?: number } = {}) {
    super(message, options);
    this.retryAfterS = options.retryAfterS ?? 1;
  }
}

/** Another process has taken over a partition, a transactional id, or an export, so this process must no longer write to it. */
export class Fenced extends Error {
  override readonly name = 'Fenced';
}

/** An error that prevents the start, such as a port in use. The process prints one line and exits with code 1. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused';
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
