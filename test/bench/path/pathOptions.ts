/** The flags of `npm run bench`, and its rows. */
import { parseArgs } from 'node:util';

/** Requests of one form: how many events each holds, on how many connections at once. */
export interface Shape {
  readonly events: number;
  readonly connections: number;
}

export interface PathOptions {
  readonly shapes: readonly Shape[];
  /** The length of each load. */
  readonly seconds: number;
  /** How often each row is measured; the figures are medians. */
  readonly runs: number;
  /** Where the result goes as JSON. */
  readonly json: string | undefined;
  readonly isChecked: boolean;
  readonly isProfiled: boolean;
  /** Compares this tree with a commit, instead of with the peers. */
  readonly against: string | undefined;
}

/** The most that Questlog may cost of what the Collector costs. */
export const TO_REACH: Readonly<Record<string, number>> = {
  '500x8': 1.3,
  '20x64': 1.3,
  '1x64': 1.5,
  '1x1000': 1.5,
};

export function nameOf({ events, connections }: Shape): string {
  return `${events}x${connections}`;
}

/** @throws in words for whoever typed the flags. */
export function pathOptions(args: readonly string[]): PathOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rows: { type: 'string', default: Object.keys(TO_REACH).join(',') },
      seconds: { type: 'string', default: '10' },
      runs: { type: 'string', default: '1' },
      json: { type: 'string' },
      check: { type: 'boolean', default: false },
      profile: { type: 'boolean', default: false },
      against: { type: 'string' },
    },
  });
  const seconds = Number(values.seconds);
  if (!(seconds > 0)) throw new Error('--seconds: a number above 0');
  const runs = Number(values.runs);
  if (!(Number.isInteger(runs) && runs > 0)) throw new Error('--runs: a whole number above 0');
  if (values.against !== undefined && (values.check || values.profile || runs > 1)) {
    throw new Error('--against measures no peers: it goes without --check, --profile and --runs');
  }
  return {
    shapes: values.rows.split(',').map(shapeOf),
    ...{ seconds, runs },
    json: values.json,
    isChecked: values.check,
    isProfiled: values.profile,
    against: values.against,
  };
}

/** The contract's cap. */
const MAX_EVENTS = 500;

function shapeOf(text: string): Shape {
  const { events, connections } = /^(?<events>\d+)x(?<connections>\d+)$/.exec(text)?.groups ?? {};
  const shape = { events: Number(events), connections: Number(connections) };
  if (shape.events >= 1 && shape.events <= MAX_EVENTS && shape.connections >= 1) return shape;
  throw new Error(
    `--rows: ${text} is not events x connections, like 500x8, with at most ${MAX_EVENTS} events`,
  );
}
