/** The figures of a load run as Markdown, put between the markers of a page. */
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import type { LoadFigures } from './measureLoad.ts';
import type { LoadOptions } from './options.ts';

const BEGIN = '<!-- figures:begin -->';
const END = '<!-- figures:end -->';

export function loadReport(figures: LoadFigures, options: LoadOptions): string {
  const { load, reads, rss } = figures;
  const rows: [string, string][] = [
    ['sessions registered', `${grouped(options.sessions)}, ${grouped(figures.sessionsPerSecond)} a second`],
    [
      'events loaded',
      `${grouped(options.events)} in requests of ${options.batch} over ${options.connections} connections, ` +
        `${load.requestBytesPerEvent.toFixed(0)} bytes each`,
    ],
    ['events a second', grouped(load.eventsPerSecond)],
    ['CPU of the process an event, projection included', `${load.cpuMicrosPerEvent.toFixed(1)} µs`],
    ['quota afterwards', `${grouped(load.quotaUsed)} events`],
    ['not in ClickHouse when the last one was answered', `${grouped(load.lagAtEndEvents)} events`],
    ['time until they were', `${load.caughtUpAfterS.toFixed(1)} s`],
    [
      `\`GET /v1/events/{id}\`, ${grouped(options.reads)} random ids`,
      `p50 ${reads.p50Ms.toFixed(1)} ms, p99 ${reads.p99Ms.toFixed(1)} ms, slowest ${reads.maxMs.toFixed(1)} ms`,
    ],
    ['resident memory at start', mebibytes(rss.atStart)],
    ['… after the sessions', mebibytes(rss.afterSessions)],
    ['… at its highest in each quarter of the load', rss.quarters.map(mebibytes).join(', ')],
    ['… once caught up', mebibytes(rss.caughtUp)],
    ['… after the reads', mebibytes(rss.atEnd)],
    ['… at its highest at all', mebibytes(rss.peak)],
    ['log on disk', mebibytes(figures.logBytes)],
    ['ClickHouse on disk', mebibytes(figures.clickHouseBytes)],
    ...figures.parts.map(({ table, parts, rows, bytes }): [string, string] => [
      `table \`${table}\``,
      `${parts} active parts, ${grouped(rows)} rows, ${mebibytes(bytes)}`,
    ]),
  ];
  return [
    `Measured ${new Date().toISOString().slice(0, 10)} on ${machine()}.`,
    '',
    '| what | figure |',
    '| --- | --- |',
    ...rows.map(([what, figure]) => `| ${what} | ${figure} |`),
  ].join('\n');
}

/** @throws when the page has no place for figures. */
export function putIntoPage(path: string, report: string): void {
  const page = readFileSync(path, 'utf8');
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`${path} has no ${BEGIN} … ${END}`);
  writeFileSync(path, `${page.slice(0, begin + BEGIN.length)}\n\n${report}\n\n${page.slice(end)}`);
}

function machine(): string {
  const [cpu] = cpus();
  const gibibytes = (totalmem() / 1024 ** 3).toFixed(0);
  return `${cpu?.model ?? 'an unknown CPU'}, ${cpus().length} cores, ${gibibytes} GiB, ${process.platform}, Node ${process.versions.node}`;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(bytes < 10 * 1024 ** 2 ? 1 : 0)} MiB`;
}

function grouped(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
