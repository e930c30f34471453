/** Parses the flags of `npm run bench`, and defines its rows. */
import { parseArgs } from 'node:util';
import { KIND_NAMES, type KindName } from '../kinds/requestKinds.ts';

/** Shape of requests: events per request, and concurrent connections. */
export interface Shape {
  readonly events: number;
  readonly connections: number;
  /** Undefined for plain requests. */
  readonly kind?: KindName;
}

/** Shape of requests that are not plain. */
export interface KindShape extends Shape {
  readonly kind: KindName;
}

export type PathOptions = Readonly<ReturnType<typeof pathOptions>>;

/** Target for the ratio of Questlog's cost to the Collector's cost, by row. */
export const TO_REACH: Readonly<Record<string, string>> = {
  '500x8': 'below 1',
  '20x64': 'below 1',
  '1x64': '1.1',
  '1x1000': '1.1',
};

const FLAT_ROWS = '20x64,500x8';
const KIND_ROWS = '500x8,20x64,1x64';

export function nameOf({ events, connections, kind }: Shape): string {
  return `${events}x${connections}${kind === undefined ? '' : ` ${kind}`}`;
}

/** @throws Error with a message for the user */
export function pathOptions(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rows: { type: 'string' },
      /** Seconds of each load. */
      seconds: { type: 'string', default: '10' },
      /** Measurements of each row. */
      runs: { type: 'string', default: '1' },
      /** JSON file for the result. */
      json: { type: 'string' },
      /** Commit that this tree is compared with. */
      against: { type: 'string' },
      flat: { type: 'boolean', default: false },
      rest: { type: 'boolean', default: false },
      sizing: { type: 'boolean', default: false },
      traces: { type: 'boolean', default: false },
      cluster: { type: 'boolean', default: false },
      /** Rows of the table `events` for the queries of `--cluster`. */
      events: { type: 'string', default: '20000000' },
    },
  });
  const { against, flat, rest, sizing, traces, cluster } = values;
  const [seconds, runs] = [Number(values.seconds), Number(values.runs)];
  if (!(seconds > 0 && Number.isInteger(runs) && runs > 0))
    throw new Error('--seconds: a number above 0; --runs: a whole number above 0');
  const alone = [against !== undefined, flat, rest, sizing, traces, cluster].filter(Boolean).length;
  if (alone > 1)
    throw new Error('--against, --flat, --rest, --sizing, --traces, and --cluster exclude each other');
  if (alone === 1 && !traces && !cluster && runs > 1)
    throw new Error('--against, --flat, --rest, and --sizing go without --runs');
  const rows = values.rows ?? (flat ? FLAT_ROWS : traces ? KIND_ROWS : Object.keys(TO_REACH).join(','));
  const kindRows = (values.rows ?? KIND_ROWS).split(',').map(shapeOf);
  return {
    ...values,
    ...{ seconds, runs, events: Number(values.events) },
    shapes: rows.split(',').map(shapeOf),
    kindShapes: kindRows.flatMap((shape) => KIND_NAMES.map((kind): KindShape => ({ ...shape, kind }))),
  };
}

/** Maximum events of a request (contract). */
const MAX_EVENTS = 500;

function shapeOf(text: string): Shape {
  const { events, connections } = /^(?<events>\d+)x(?<connections>\d+)$/.exec(text)?.groups ?? {};
  const shape = { events: Number(events), connections: Number(connections) };
  if (shape.events >= 1 && shape.events <= MAX_EVENTS && shape.connections >= 1) return shape;
  throw new Error(
    `--rows: ${text} is not events x connections, like 500x8, with at most ${MAX_EVENTS} events`,
  );
}
