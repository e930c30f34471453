/** Formats the figures of a benchmark as Markdown, with date and machine. */
import { cpus, totalmem } from 'node:os';

export function page(rows: readonly string[]): string {
  const [cpu] = cpus();
  const gibibytes = (totalmem() / 1024 ** 3).toFixed(0);
  const machine = `${cpu?.model ?? 'an unknown CPU'}, ${cpus().length} cores, ${gibibytes} GiB, ${process.platform}`;
  const date = new Date().toISOString().slice(0, 10);
  return [`Measured ${date} on ${machine}, Node ${process.versions.node}.`, ...rows].join('\n');
}
