/**
 * `npm run bench:load`: sends a million events over HTTP to a new product and measures the cost. Fails if the quota differs from
 * the count, or if reading an event is too slow.
 */
import { loadOptions } from './load/loadOptions.ts';
import { loadReport } from './load/loadReport.ts';
import { measureLoad } from './load/measureLoad.ts';

const MAX_READ_P99_MS = 20;

const options = loadOptions(process.argv.slice(2));
const figures = await measureLoad(options, (line) => process.stdout.write(`${line}\n`));
const report = loadReport(figures, options);
process.stdout.write(`\n${report}\n`);

const failures: string[] = [];
if (figures.load.quotaUsed !== options.events) {
  failures.push(`the quota says ${figures.load.quotaUsed}, and ${options.events} events were acknowledged`);
}
if (!(figures.reads.p99Ms < MAX_READ_P99_MS)) {
  failures.push(
    `GET of an event took ${figures.reads.p99Ms.toFixed(1)} ms at p99; ${MAX_READ_P99_MS} ms is the bound`,
  );
}
for (const failure of failures) process.stderr.write(`bench:load: ${failure}\n`);
process.exitCode = failures.length === 0 ? 0 : 1;
