/** Defines the results of the benchmark, reads and writes them as JSON, and computes medians. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { ClusterResult } from '../cluster/measureCluster.ts';
import type { FlatResult } from '../flat/measureFlat.ts';
import type { KindsResult } from '../kinds/measureKinds.ts';
import type { PeerName } from '../peers/peer.ts';
import type { RestResult } from '../rest/measureRest.ts';
import type { SizingResult } from '../sizing/measureSizing.ts';
import type { TracesResult } from '../traces/measureTraces.ts';
import type { OpenFigures } from './pathLoad.ts';
import type { Shape } from './pathOptions.ts';

/** Results of one machine: each part comes from the last run that measured it. */
export interface BenchResults {
  readonly beside?: PathResult;
  readonly kinds?: KindsResult;
  readonly against?: AgainstResult;
  readonly flat?: FlatResult;
  readonly rest?: RestResult;
  readonly sizing?: SizingResult;
  readonly traces?: TracesResult;
  readonly cluster?: ClusterResult;
}

/** Returns the results by machine. */
export function readResults(path: string): Record<string, BenchResults> {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {};
}

/** Replaces the measured parts of the machine, and keeps other parts and machines. */
export function writeResults(path: string, machine: string, measured: BenchResults): void {
  const results = readResults(path);
  results[machine] = { ...results[machine], ...measured };
  writeFileSync(path, `${JSON.stringify(results, null, 2)}\n`);
}

export interface PathResult {
  readonly run: RunFacts;
  readonly peers: readonly PeerFacts[];
  readonly rows: readonly RowFigures[];
  readonly projector: ProjectorFigures;
}

export interface MachineFacts {
  /** Time of the run, ISO 8601. */
  readonly at: string;
  readonly machine: string;
  readonly node: string;
  /** Load average of the minute before the run. */
  readonly loadBefore: number;
}

export interface RunFacts extends MachineFacts {
  readonly kafka: string;
  /** Seconds of each load. */
  readonly seconds: number;
  /** Measurements of each row. */
  readonly runs: number;
}

export interface PeerFacts {
  readonly name: PeerName;
  readonly version: string;
  /** Reason why the peer was not measured. */
  readonly absent?: string;
}

export interface RowFigures extends Shape {
  /** Rate of the open load, the same for all peers. */
  readonly openPerSecond: number;
  readonly peers: Readonly<Partial<Record<PeerName, PeerFigures>>>;
}

export interface PeerFigures {
  readonly closed: CostFigures;
  readonly open: OpenFigures;
}

export interface CostFigures {
  /** User and system time of the serving process per acknowledged event. */
  readonly cpuMicrosPerEvent: number;
  readonly requestsPerSecond: number;
  readonly refused: number;
  readonly timedOut: number;
}

export interface ProjectorFigures {
  readonly events: number;
  readonly cpuMicrosPerEvent: number;
  readonly clickhouseMicrosPerEvent: number;
}

export interface AgainstResult {
  readonly run: RunFacts;
  /** Commit that this tree is compared with. */
  readonly parent: string;
  readonly candidate: string;
  readonly rows: readonly AgainstRow[];
}

/** CPU per event: commit, this tree, and commit again. */
export interface AgainstRow extends Shape {
  readonly parentMicros: readonly [number, number];
  readonly candidateMicros: number;
}

/** Combines rows of the same shape: medians of the figures, and the maximum of rejected and timed-out requests. */
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

/** @param of objects with the same keys */
export function medians<T extends object>(of: readonly T[]): T {
  const names = Object.keys(of[0] ?? {});
  const runs = of.map((figures) => new Map<string, number>(Object.entries(figures)));
  return Object.fromEntries(
    names.map((name) => {
      const values = runs.map((figures) => figures.get(name) ?? Number.NaN);
      return [name, name === 'refused' || name === 'timedOut' ? Math.max(...values) : median(values)];
    }),
  ) as T;
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function percentile(ascending: readonly number[], share: number): number {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * share))] ?? Number.NaN;
}

/** Returns the median; the upper one of an even count. A missing figure sorts last. */
export function median(values: readonly number[]): number {
  const ascending = values
    .map((value) => (Number.isNaN(value) ? Number.POSITIVE_INFINITY : value))
    .sort((a, b) => (a < b ? -1 : 1));
  return ascending[Math.floor(ascending.length / 2)] ?? Number.NaN;
}
