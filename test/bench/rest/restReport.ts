/** Formats the figures of `npm start` at rest as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { median } from '../path/pathFigures.ts';
import { machineLine, mebibytes, percent } from '../path/pathReport.ts';
import type { RestResult } from './measureRest.ts';

/** Maximum of each figure. */
const TO_REACH = { readyMs: 1_100, cpuShare: 0.005, rssBytes: 300 * 1024 ** 2 } as const;

export function restReport(result: RestResult): string {
  const { run, idleSeconds, firstReadyMs } = result;
  const readyMs = median(result.readyMs);
  const [cpuShare, rssBytes] = [sumOf(result, 'cpuShare'), sumOf(result, 'rssBytes')];
  return [
    `${machineLine(run)}.`,
    table(
      ['measurement', 'figure', 'target'],
      [
        ['ready, on an empty folder', seconds(firstReadyMs), '–'],
        [
          'ready, later starts',
          readyWords(result),
          reached(readyMs <= TO_REACH.readyMs, seconds(TO_REACH.readyMs)),
        ],
        [
          `CPU of all processes, ${idleSeconds} s idle`,
          percent(cpuShare, 2),
          reached(cpuShare < TO_REACH.cpuShare, `below ${percent(TO_REACH.cpuShare, 2)}`),
        ],
        [
          'resident memory of all processes',
          `${mebibytes(rssBytes)} MiB`,
          reached(rssBytes < TO_REACH.rssBytes, `below ${mebibytes(TO_REACH.rssBytes)} MiB`),
        ],
        ['private memory of all processes', `${mebibytes(sumOf(result, 'ownBytes'))} MiB`, '–'],
      ],
    ),
  ].join('\n\n');
}

function sumOf({ processes }: RestResult, of: 'rssBytes' | 'ownBytes' | 'cpuShare'): number {
  return processes.reduce((total, process) => total + process[of], 0);
}

function readyWords(of: RestResult): string {
  const [least, most] = [of.readyMs[0] ?? Number.NaN, of.readyMs.at(-1) ?? Number.NaN];
  const spread = `${seconds(least)} to ${seconds(most)} in ${of.readyMs.length} starts`;
  return `${seconds(median(of.readyMs))} (${spread})`;
}

function reached(isReached: boolean, what: string): string {
  return `${what}: ${isReached ? 'reached' : 'not reached'}`;
}

function seconds(millis: number): string {
  return `${(millis / 1000).toFixed(2)} s`;
}
