/** Logs: a constant event name plus fields, one JSON line each, to standard error (standard output is for the answer). */
import { pino } from 'pino';
import { messageOf } from './errors.ts';

export type Fields = Readonly<Record<string, unknown>>;

export interface Logger {
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  /** `cause` is told with its chain of causes; the stack only where it is a bug of ours (`bug: true` in the fields). */
  error(event: string, cause: unknown, fields?: Fields): void;
}

/** @param worker the number of one that has others beside it. */
export function createLogger(
  service: string,
  destination = pino.destination({ dest: 2, sync: true }),
  worker?: number,
): Logger {
  const sink = pino(
    {
      base: { service, ...(worker !== undefined && { worker }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      messageKey: 'event',
    },
    destination,
  );
  return {
    info: (event, fields = {}) => sink.info(fields, event),
    warn: (event, fields = {}) => sink.warn(fields, event),
    error: (event, cause, fields = {}) =>
      sink.error({ ...fields, ...describe(cause, fields['bug'] === true) }, event),
  };
}

/** A silent logger, for tests and tools. */
export const silentLogger: Logger = { info: () => {}, warn: () => {}, error: () => {} };

function describe(cause: unknown, withStack: boolean): Fields {
  const causes: string[] = [];
  for (
    let at = cause;
    at !== undefined && causes.length < 5;
    at = at instanceof Error ? at.cause : undefined
  ) {
    causes.push(messageOf(at));
  }
  return withStack && cause instanceof Error ? { causes, stack: cause.stack } : { causes };
}
