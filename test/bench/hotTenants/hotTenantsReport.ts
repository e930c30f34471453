/** The figures of the bench of hot tenants as rows of Markdown: a table for each kind of request, a column for each spread. */
import type { RequestKind, SpreadFigures } from './hotTenantsMeasure.ts';
import type { HotTenantsOptions } from './hotTenantsOptions.ts';

export function hotTenantRows(
  figures: readonly SpreadFigures[],
  { batch, connections, partitions, projectors, seconds, sessions }: HotTenantsOptions,
): string[] {
  return [
    `Of ${partitions} partitions, with ${projectors} projectors; each column: ${grouped(sessions)} fresh sessions,`,
    `${connections} connections at full speed for ${seconds} s.`,
    ...table(`Requests of ${batch} events of one session; spread`, figures.filter(isOf('one')), projectors),
    ...table(`Requests of ${batch} events of any sessions; spread`, figures.filter(isOf('many')), projectors),
  ];
}

function isOf(kind: RequestKind): (run: SpreadFigures) => boolean {
  return (run) => run.kind === kind;
}

function table(title: string, runs: readonly SpreadFigures[], projectors: number): string[] {
  const [first] = runs;
  const row = (what: string, of: (run: SpreadFigures) => string): string =>
    `| ${[what, ...runs.map(of)].join(' | ')} |`;
  const heads = runs.map(({ spread }, i) =>
    runs.findIndex((run) => run.spread === spread) < i ? `${spread} again` : `${spread}`,
  );
  const cpu = ({ cpuMicrosPerEvent: { ingest, projector, linker } }: SpreadFigures): string =>
    [ingest, projector, linker].map((micros) => micros.toFixed(1)).join('; ');
  return [
    '',
    `| ${[title, ...heads].join(' | ')} |`,
    `| ${['', ...runs].map(() => '---').join(' | ')} |`,
    row('events of the fullest partition', ({ fullestShare }) => percent(fullestShare)),
    row('… over the mean of those in use', ({ fullestOverMean }) => fullestOverMean.toFixed(2)),
    row(`records of the busiest of ${projectors} projectors`, (run) => percent(run.busiestProjectorShare)),
    row('events a second', ({ eventsPerSecond }) => grouped(eventsPerSecond)),
    row('… times those of the first column', ({ eventsPerSecond }) =>
      (eventsPerSecond / (first?.eventsPerSecond ?? Number.NaN)).toFixed(2),
    ),
    row('`POST` p50; p99', ({ p50Ms, p99Ms }) => `${p50Ms.toFixed(1)} ms; ${p99Ms.toFixed(1)} ms`),
    row('appends a request', ({ appendsPerRequest }) => appendsPerRequest.toFixed(2)),
    row('CPU an event, µs: ingest; projectors; linker', cpu),
    row('not in ClickHouse when the last one was answered', ({ behindEvents }) => grouped(behindEvents)),
    row('… after', ({ caughtUpAfterS }) => `${caughtUpAfterS.toFixed(1)} s`),
  ];
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}

function grouped(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
