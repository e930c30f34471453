/** Parses the flags of the load benchmark. */
import { parseArgs } from 'node:util';

export interface LoadOptions {
  readonly events: number;
  readonly sessions: number;
  /** Events of one request. */
  readonly batch: number;
  /** Concurrent requests, each on its own connection. */
  readonly connections: number;
  /** Number of events that are read by id, one after the other. */
  readonly reads: number;
}

const MAX_BATCH = 500;

export function loadOptions(args: readonly string[]): LoadOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      events: { type: 'string', default: '1000000' },
      sessions: { type: 'string', default: '50000' },
      batch: { type: 'string', default: `${MAX_BATCH}` },
      connections: { type: 'string', default: '8' },
      reads: { type: 'string', default: '2000' },
    },
  });
  const options = {
    events: wholeNumber('events', values.events),
    sessions: wholeNumber('sessions', values.sessions),
    batch: wholeNumber('batch', values.batch),
    connections: wholeNumber('connections', values.connections),
    reads: wholeNumber('reads', values.reads),
  };
  if (options.batch > MAX_BATCH) throw new Error(`--batch: at most ${MAX_BATCH}, the contract's cap`);
  return options;
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`--${name}: a whole number above 0`);
}
