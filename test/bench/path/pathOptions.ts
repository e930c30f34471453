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

export interface PathOptions {
  /** Rows of plain requests. */
  readonly shapes: readonly Shape[];
  /** Rows of the kinds of requests. */
  readonly kindShapes: readonly KindShape[];
  /** Seconds of each load. */
  readonly seconds: number;
  /** Measurements of each row; the figures are medians. */
  readonly runs: number;
  /** JSON file for the result. */
  readonly json: string | undefined;
  /** Compares this tree with a commit, instead of with the peers. */
  readonly against: string | undefined;
  /** Measures larger deployments instead of the peers. */
  readonly isFlat: boolean;
  /** Measures `npm start` without requests, instead of the peers. */
  readonly isAtRest: boolean;
  /** Measures what an event costs in each process of a deployment, instead of the peers. */
  readonly isSizing: boolean;
  /** Measures what traces cost in ingest, instead of the peers. */
  readonly isTraces: boolean;
}

/** Maximum ratio of Questlog's cost to the Collector's cost. */
export const TO_REACH: Readonly<Record<string, number>> = {
  '500x8': 1.3,
  '20x64': 1.3,
  '1x64': 1.5,
  '1x1000': 1.5,
};

const FLAT_ROWS = '20x64,500x8';
const KIND_ROWS = '500x8,20x64,1x64';

export function nameOf({ events, connections, kind }: Shape): string {
  return `${events}x${connections}${kind === undefined ? '' : ` ${kind}`}`;
}

/** @throws Error with a message for the user */
export function pathOptions(args: readonly string[]): PathOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rows: { type: 'string' },
      seconds: { type: 'string', default: '10' },
      runs: { type: 'string', default: '1' },
      json: { type: 'string' },
      against: { type: 'string' },
      flat: { type: 'boolean', default: false },
      rest: { type: 'boolean', default: false },
      sizing: { type: 'boolean', default: false },
      traces: { type: 'boolean', default: false },
    },
  });
  const seconds = Number(values.seconds);
  if (!(seconds > 0)) throw new Error('--seconds: a number above 0');
  const runs = Number(values.runs);
  if (!(Number.isInteger(runs) && runs > 0)) throw new Error('--runs: a whole number above 0');
  const { against, flat, rest, sizing, traces } = values;
  const alone = [against !== undefined, flat, rest, sizing, traces].filter(Boolean).length;
  if (alone > 1) throw new Error('--against, --flat, --rest, --sizing, and --traces exclude each other');
  if (alone === 1 && !traces && runs > 1)
    throw new Error('--against, --flat, --rest, and --sizing go without --runs');
  const rows = values.rows ?? (flat ? FLAT_ROWS : traces ? KIND_ROWS : Object.keys(TO_REACH).join(','));
  const kindRows = (values.rows ?? KIND_ROWS).split(',').map(shapeOf);
  return {
    shapes: rows.split(',').map(shapeOf),
    kindShapes: kindRows.flatMap((shape) => KIND_NAMES.map((kind) => ({ ...shape, kind }))),
    ...{ seconds, runs },
    ...{ json: values.json, against },
    isFlat: flat,
    ...{ isAtRest: rest, isSizing: sizing, isTraces: traces },
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
