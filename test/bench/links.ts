/**
 * `npm run bench:links`: measures the cost of links for the linker alone and for the product under load, in memory and in the
 * changelog, and a failover. Fails if a link is missing or duplicated.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ownEnvironment } from '../e2e/product.ts';
import { FAILOVER_WITHIN_MS, measureFailover, measureTransactions } from './failover/linkerFailover.ts';
import { page } from './figuresPage.ts';
import type { AloneFigures } from './links/linksAlone.ts';
import type { ChangelogFigures } from './links/linksChangelog.ts';
import { measureLive } from './links/linksLive.ts';
import type { MemoryFigures } from './links/linksMemory.ts';
import { linksOptions } from './links/linksOptions.ts';
import { aloneRows, changelogRows, failoverRows, liveRows, memoryRows } from './links/linksReport.ts';

const run = promisify(execFile);

const options = linksOptions(process.argv.slice(2), process.env['KAFKA_BROKERS']);
const { events, reports, parts } = options;
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const rows: string[] = [];

if (parts.includes('alone')) {
  const unasked = await inChild<AloneFigures>('links/linksAlone.ts', [`${events}`, '0']);
  const asked = await inChild<AloneFigures>('links/linksAlone.ts', [`${events}`, `${reports}`]);
  rows.push(...aloneRows(unasked, asked, options));
}
if (parts.includes('live')) rows.push(...liveRows(await measureLive(options, say), options));
if (parts.includes('memory')) {
  rows.push(...memoryRows(await inChild<MemoryFigures>('links/linksMemory.ts', [], ['--expose-gc'])));
}
if (parts.includes('changelog')) {
  rows.push(
    ...changelogRows(await inChild<ChangelogFigures>('links/linksChangelog.ts', [], ['--expose-gc'])),
  );
}
if (parts.includes('failover')) {
  const changelogBytes = options.mebibytes * 1024 ** 2;
  const transactions = await measureTransactions(options.brokers);
  const failover = await measureFailover({ ...options, changelogBytes, withinMs: FAILOVER_WITHIN_MS });
  rows.push(...failoverRows(failover, transactions, options));
} else if (options.brokers === '') {
  say(
    'failover: left out, KAFKA_BROKERS names none. `env $(npm run -s stack -- up --brokers 3)` in front gives some',
  );
}
const report = page(rows);
say(`\n${report}`);

/** Runs a measurement in a separate process, so that its CPU time and heap contain nothing else. */
async function inChild<Figures>(
  file: string,
  args: readonly string[],
  flags: readonly string[] = [],
): Promise<Figures> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  // Number of query threads of the product.
  const env = { ...ownEnvironment(), UV_THREADPOOL_SIZE: '16' };
  const { stdout, stderr } = await run(process.execPath, [...flags, path, ...args], { env });
  process.stderr.write(stderr);
  say(`${file} ${args.join(' ')}: ${stdout.trim()}`);
  return JSON.parse(stdout);
}
