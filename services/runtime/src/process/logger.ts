/** Writes log entries to standard error, one line each. An entry has a constant event name and fields, as JSON or as text. */
import { pino } from 'pino';
import { messageOf } from './errors.ts';

export type Fields = Readonly<Record<string, unknown>>;

export const LOG_LEVELS = ['info', 'warn', 'error'] as const;
export const LOG_FORMATS = ['auto', 'json', 'text'] as const;

export interface Logger {
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  /** Logs the messages of `cause` and its causes. Logs the stack only if `fields` contains `bug: true` (a bug in Questlog). */
  error(event: string, cause: unknown, fields?: Fields): void;
}

export interface LoggerOptions {
  readonly destination?: { write(line: string): unknown };
  readonly worker?: number | undefined;
  /** Returns the id of the current trace. Undefined if tracing is off. */
  readonly traceId?: () => string | undefined;
  readonly level?: (typeof LOG_LEVELS)[number];
  readonly format?: 'json' | 'text';
}

export function createLogger(service: string, options: LoggerOptions = {}): Logger {
  const {
    destination = pino.destination({ dest: 2, sync: true }),
    worker,
    level = 'info',
    traceId,
  } = options;
  const text = { write: (line: string) => destination.write(textLine(JSON.parse(line))) };
  const sink = pino(
    {
      level,
      base: { service, ...(worker !== undefined && { worker }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      messageKey: 'event',
      formatters: { level: (label) => ({ level: label }) },
      mixin: () => {
        const id = traceId?.();
        return id === undefined ? {} : { trace_id: id };
      },
    },
    options.format === 'text' ? text : destination,
  );
  return {
    info: (event, fields = {}) => sink.info(fields, event),
    warn: (event, fields = {}) => sink.warn(fields, event),
    error: (event, cause, fields = {}) =>
      sink.error({ ...fields, ...describe(cause, fields['bug'] === true) }, event),
  };
}

/** Returns the log level and format from the environment. Uses the default for an invalid value, which is reported later. */
export function logOptions(
  env: Readonly<Record<string, string | undefined>>,
  isTerminal = process.stderr.isTTY,
): Required<Pick<LoggerOptions, 'level' | 'format'>> {
  const level = LOG_LEVELS.find((name) => name === env['QUESTLOG_LOG_LEVEL']) ?? 'info';
  const format = env['QUESTLOG_LOG_FORMAT'];
  return { level, format: format === 'text' || (format !== 'json' && isTerminal) ? 'text' : 'json' };
}

export const silentLogger: Logger = { info: () => {}, warn: () => {}, error: () => {} };

/** Formats an entry as text: `<time> <LEVEL> <service> <event> field=value …`. */
function textLine({ time, level, service, event, stack, ...fields }: Fields): string {
  const shown = Object.entries(fields).map(([name, value]) => {
    const isPlain = typeof value === 'string' && /^[^\s"=]+$/.test(value);
    return ` ${name}=${isPlain ? value : JSON.stringify(value)}`;
  });
  const trace = stack === undefined ? '' : `\n${stack}`;
  return `${time} ${String(level).toUpperCase().padEnd(5)} ${service} ${event}${shown.join('')}${trace}\n`;
}

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
