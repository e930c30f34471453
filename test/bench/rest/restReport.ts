/** The figures of `npm start` at rest as Markdown. */
import { machineLine, mebibytes, table } from '../path/pathReport.ts';
import type { RestResult } from './measureRest.ts';

/** The most that each may be. */
const TO_REACH = { readyMs: 1_100, cpuShare: 0.005, rssBytes: 300 * 1024 ** 2 } as const;

export function restReport(result: RestResult): string {
  const { run, firstReadyMs, readyMs, idleSeconds, processes } = result;
  const sum = (of: 'rssBytes' | 'ownBytes' | 'cpuShare'): number =>
    processes.reduce((total, process) => total + process[of], 0);
  const median = readyMs[Math.floor(readyMs.length / 2)] ?? Number.NaN;
  const [least, most] = [readyMs[0] ?? Number.NaN, readyMs.at(-1) ?? Number.NaN];
  const spread = `${seconds(least)} to ${seconds(most)} in ${readyMs.length} starts`;
  return [
    `${machineLine(run)}.`,
    table(
      ['what', 'figure', 'to reach'],
      [
        ['ready, on an empty folder', seconds(firstReadyMs), '–'],
        [
          'ready, from the second start on',
          `${seconds(median)} (${spread})`,
          reached(median <= TO_REACH.readyMs, seconds(TO_REACH.readyMs)),
        ],
        [
          `CPU of all processes, ${idleSeconds} s without a request`,
          percent(sum('cpuShare')),
          reached(sum('cpuShare') < TO_REACH.cpuShare, `below ${percent(TO_REACH.cpuShare)}`),
        ],
        [
          'resident memory of all processes',
          `${mebibytes(sum('rssBytes'))} MiB`,
          reached(sum('rssBytes') < TO_REACH.rssBytes, `below ${mebibytes(TO_REACH.rssBytes)} MiB`),
        ],
        ['of it their own', `${mebibytes(sum('ownBytes'))} MiB`, '–'],
      ],
    ),
    table(
      ['process', 'resident, MiB', 'of it its own', 'CPU of a core'],
      processes.map(({ name, rssBytes, ownBytes, cpuShare }) => [
        `\`${name}\``,
        mebibytes(rssBytes),
        mebibytes(ownBytes),
        percent(cpuShare),
      ]),
    ),
    `The rest of what is resident is the text of Node, in each process again, and of ClickHouse's library. Linux counts what it has read of
them for as long as nobody needs the room: it differs from start to start, and does not grow.`,
  ].join('\n\n');
}

function reached(isReached: boolean, what: string): string {
  return `${what}: ${isReached ? 'reached' : 'not reached'}`;
}

function seconds(millis: number): string {
  return `${(millis / 1000).toFixed(2)} s`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)} %`;
}
