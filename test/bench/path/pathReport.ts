/** Formats the result of the benchmark as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import type { PeerName } from '../peers/peer.ts';
import { verdict } from './againstCommit.ts';
import type {
  AgainstResult,
  MachineFacts,
  PathResult,
  PeerFigures,
  RowFigures,
  RunFacts,
} from './pathFigures.ts';
import { nameOf, type Shape, TO_REACH } from './pathOptions.ts';

const TITLES: Readonly<Record<PeerName, string>> = {
  questlog: 'Questlog',
  afternoon: 'simple server',
  floor: '`node:http` server',
  collector: 'Collector',
};
const NAMES = Object.keys(TITLES) as PeerName[];
/** Servers whose throughput and latency the report shows. */
const COMPARED = ['questlog', 'collector'] as const;

/** Returns the main figures: the cost of an event, and the throughput and latency of Questlog and the Collector. */
export function pathReport(result: PathResult): string {
  const { rows, run, peers } = result;
  return [
    factsLine(run),
    table(
      ['CPU µs per event', ...NAMES.map((name) => TITLES[name]), 'ratio to Collector', 'target'],
      rows.map((row) => [
        titleOf(row),
        ...NAMES.map((name) => micros(row.peers[name]?.closed.cpuMicrosPerEvent)),
        ratioTo('collector', row)?.toFixed(2) ?? '–',
        TO_REACH[nameOf(row)] ?? '–',
      ]),
    ),
    table(
      ['events × connections', ...COMPARED.map((name) => TITLES[name])],
      rows.map((row) => [titleOf(row), ...COMPARED.map((name) => speedOf(row.peers[name]))]),
    ),
    projectorLine(result),
    ...peers.flatMap(({ name, absent }) =>
      absent === undefined ? [] : [`${TITLES[name]}: not measured: ${absent}.`],
    ),
  ].join('\n\n');
}

function speedOf(figures: PeerFigures | undefined): string {
  if (figures === undefined) return '–';
  const { closed, open } = figures;
  const failed = closed.refused + closed.timedOut + open.refused + open.timedOut;
  const latency = `${millis(open.p50Ms)}/${millis(open.p99Ms)}`;
  return `${grouped(closed.requestsPerSecond)}; ${latency}${failed === 0 ? '' : `; ${failed} failed`}`;
}

export function againstReport({ run, parent, candidate, rows }: AgainstResult): string {
  return [
    `${factsLine(run)}\nCPU µs per event of ${parent}, ${candidate}, and ${parent} again.`,
    table(
      ['events × connections', parent, candidate, `${parent} again`, 'verdict'],
      rows.map((row) => [
        titleOf(row),
        micros(row.parentMicros[0]),
        micros(row.candidateMicros),
        micros(row.parentMicros[1]),
        verdict(row),
      ]),
    ),
  ].join('\n\n');
}

export function factsLine(run: RunFacts): string {
  const measurement = run.runs === 1 ? '1 measurement' : `median of ${run.runs} measurements`;
  return `${machineLine(run)}, Kafka ${run.kafka}, ${measurement} of ${run.seconds} s.`;
}

/** Returns an unfinished sentence about the machine. */
export function machineLine({ at, machine, node }: MachineFacts): string {
  return `${at.slice(0, 10)}: ${machine.replace(', linux', '')}, Node ${node}`;
}

function projectorLine({ projector }: PathResult): string {
  const { events, cpuMicrosPerEvent, clickhouseMicrosPerEvent } = projector;
  return `For each of ${grouped(events)} events, the projector used ${micros(cpuMicrosPerEvent)} µs of CPU, and ClickHouse ${micros(clickhouseMicrosPerEvent)} µs.`;
}

/** Undefined if a figure is missing. */
export function ratioTo(name: PeerName, { peers }: RowFigures): number | undefined {
  const [own, other] = [peers.questlog, peers[name]];
  if (!hasFigure(own) || !hasFigure(other)) return undefined;
  return own.closed.cpuMicrosPerEvent / other.closed.cpuMicrosPerEvent;
}

function hasFigure(figures: PeerFigures | undefined): figures is PeerFigures {
  return Number.isFinite(figures?.closed.cpuMicrosPerEvent);
}

export function titleOf({ events, connections, kind }: Shape): string {
  return `${events} × ${grouped(connections)}${kind === undefined ? '' : `, ${kind}`}`;
}

/** A figure that could not be measured is null in JSON. */
export function micros(value: number | null | undefined): string {
  if (value === undefined) return '–';
  return value === null || !Number.isFinite(value) ? 'none acknowledged' : value.toPrecision(3);
}

export function millis(value: number | null): string {
  return value === null || !Number.isFinite(value) ? '–' : value.toPrecision(3);
}

export function mebibytes(bytes: number): string {
  return (bytes / 1024 ** 2).toFixed(0);
}

export function grouped(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

export function percent(share: number, digits: number): string {
  return `${(share * 100).toFixed(digits)} %`;
}
