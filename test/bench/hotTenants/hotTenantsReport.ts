/** Formats the figures of hot tenants as Markdown: a table for each kind of request, a column for each spread. */
import type { RequestKind, SpreadFigures } from './hotTenantsMeasure.ts';
import type { HotTenantsOptions } from './hotTenantsOptions.ts';

export function hotTenantRows(
  figures: readonly SpreadFigures[],
  { batch, connections, partitions, projectors, seconds, sessions }: HotTenantsOptions,
): string[] {
  return [
    `Of ${partitions} partitions, with ${projectors} projectors; each column: ${grouped(sessions)} fresh sessions,`,
    `${connections} connections at full speed for ${seconds} s.`,
    ...table(`Requests of ${batch} events of one session; spread`, figures.filter(isOf('one'))),
    ...table(`Requests of ${batch} events of any sessions; spread`, figures.filter(isOf('many'))),
  ];
}

function isOf(kind: RequestKind): (run: SpreadFigures) => boolean {
  return (run) => run.kind === kind;
}

function table(title: string, runs: readonly SpreadFigures[]): string[] {
  const row = (what: string, of: (run: SpreadFigures) => string): string =>
    `| ${[what, ...runs.map(of)].join(' | ')} |`;
  const heads = runs.map(({ spread }, i) =>
    runs.findIndex((run) => run.spread === spread) < i ? `${spread} again` : `${spread}`,
  );
  return [
    '',
    `| ${[title, ...heads].join(' | ')} |`,
    `| ${['', ...runs].map(() => '---').join(' | ')} |`,
    row('events of the fullest partition', ({ fullestShare }) => percent(fullestShare)),
    row('events a second', ({ eventsPerSecond }) => grouped(eventsPerSecond)),
    row('CPU an event, µs', ({ cpuMicrosPerEvent: { ingest, projector, linker } }) =>
      (ingest + projector + linker).toFixed(0),
    ),
  ];
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}

function grouped(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
