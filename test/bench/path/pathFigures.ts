/** What runs of the bench leave: the figures of each row and peer, as they are written to JSON, and their medians. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { FlatResult } from '../flat/measureFlat.ts';
import type { PeerName } from '../peers/peer.ts';
import type { RestResult } from '../rest/measureRest.ts';
import type { OpenFigures } from './pathLoad.ts';
import type { Shape } from './pathOptions.ts';

/** What one file holds: each part is of the last run that measured it. */
export interface BenchResults {
  readonly beside?: PathResult;
  readonly against?: AgainstResult;
  readonly flat?: FlatResult;
  readonly rest?: RestResult;
}

/** Empty where the file is not there. */
export function readResults(path: string): BenchResults {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {};
}

/** Leaves the other parts of the file as they are. */
export function writeResults(path: string, measured: BenchResults): void {
  writeFileSync(path, `${JSON.stringify({ ...readResults(path), ...measured }, null, 2)}\n`);
}

export interface PathResult {
  readonly run: RunFacts;
  readonly peers: readonly PeerFacts[];
  readonly rows: readonly RowFigures[];
  readonly projector: ProjectorFigures | NotMeasured;
}

export interface NotMeasured {
  /** Why. */
  readonly absent: string;
}

export interface MachineFacts {
  /** ISO 8601. */
  readonly at: string;
  readonly machine: string;
  readonly node: string;
  /** Processes that wanted a CPU on the average of the minute before it, of anybody. */
  readonly loadBefore: number;
}

export interface RunFacts extends MachineFacts {
  readonly kafka: string;
  /** Of each load. */
  readonly seconds: number;
  /** Of each row. */
  readonly runs: number;
}

export interface PeerFacts {
  readonly name: PeerName;
  readonly version: string;
  /** Its resident set before the first request. */
  readonly restBytes?: number;
  /** Why it is not measured here. */
  readonly absent?: string;
}

export interface RowFigures extends Shape {
  /** The rate of the open load, the same for all. */
  readonly openPerSecond: number;
  readonly peers: Readonly<Partial<Record<PeerName, PeerFigures>>>;
  /** Questlog's functions by their own time, the first ten. */
  readonly profile?: readonly ProfileEntry[];
}

export interface PeerFigures {
  readonly closed: CostFigures;
  readonly open: OpenFigures;
}

export interface CostFigures {
  /** User and system time of the serving process, per event that it has acknowledged. */
  readonly cpuMicrosPerEvent: number;
  readonly requestsPerSecond: number;
  /** The highest resident set. */
  readonly rssBytes: number;
  /** Undefined where nothing is logged. */
  readonly logBytesPerEvent?: number;
  readonly refused: number;
  readonly timedOut: number;
}

export interface ProfileEntry {
  readonly function: string;
  readonly file: string;
  /** Of the time that the process worked, without what it called. */
  readonly percent: number;
}

export interface ProjectorFigures {
  readonly events: number;
  readonly cpuMicrosPerEvent: number;
  readonly clickhouseMicrosPerEvent: number;
}

export interface AgainstResult {
  readonly run: RunFacts;
  /** A commit. */
  readonly parent: string;
  readonly candidate: string;
  readonly rows: readonly AgainstRow[];
}

/** CPU an event, before, with the change, and before again. */
export interface AgainstRow extends Shape {
  readonly parentMicros: readonly [number, number];
  readonly candidateMicros: number;
  readonly profiles?: Profiles;
}

/** Of the same load. */
export interface Profiles {
  readonly parent: readonly ProfileEntry[];
  readonly candidate: readonly ProfileEntry[];
}

/** One row of several of the same shape: the median of each figure, and the most that was refused or timed out. */
export function medianRow(runs: readonly [RowFigures, ...RowFigures[]]): RowFigures {
  const [first] = runs;
  const names = Object.keys(first.peers) as PeerName[];
  const peers = names.map((name) => {
    const figures = runs.flatMap(({ peers: { [name]: of } }) => of ?? []);
    const [closed, open] = [figures.map((of) => of.closed), figures.map((of) => of.open)];
    return [name, { closed: medians(closed), open: medians(open) }];
  });
  const openPerSecond = median(runs.map((row) => row.openPerSecond));
  return { ...first, openPerSecond, peers: Object.fromEntries(peers) };
}

/** @param of figures that all have the same names. */
function medians(of: readonly object[]): object {
  const names = Object.keys(of[0] ?? {});
  const runs = of.map((figures) => new Map<string, number>(Object.entries(figures)));
  return Object.fromEntries(
    names.map((name) => {
      const values = runs.map((figures) => figures.get(name) ?? Number.NaN);
      return [name, name === 'refused' || name === 'timedOut' ? Math.max(...values) : median(values)];
    }),
  );
}

/** Of an even count the upper one. What has no figure is more than any. */
export function median(values: readonly number[]): number {
  const ascending = values
    .map((value) => (Number.isNaN(value) ? Number.POSITIVE_INFINITY : value))
    .sort((a, b) => (a < b ? -1 : 1));
  return ascending[Math.floor(ascending.length / 2)] ?? Number.NaN;
}
