/**
 * Runs `examples/bug-tracker/stream.ts` in a separate process. The tests stop the process and break its connection to the
 * stream.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { aStreamBench, type Reader, type StreamBench } from '@questlog/ingest/linkedEvents/stream.testing';
import { LINK_VERSIONS } from '@questlog/schemas/topics/linkedEvents';
import { expect, onTestFinished, test } from 'vitest';
import { eventually } from './builders.ts';
import { collectOutput, type Output, ownEnvironment } from './product.ts';

const EXAMPLE = fileURLToPath(new URL('../../examples/bug-tracker/stream.ts', import.meta.url));
const REPORT = '5f0c2f5e-8a43-7a5e-9d34-0c4bb0c1a7d1';
const NOON_MICROS = BigInt(Date.UTC(2026, 10, 21, 12)) * 1000n;
const UNLINKED = { kind: 'unlinked', version: LINK_VERSIONS.retracted } as const;

/** Returns the fields of a link to an event that occurred `seconds` after noon. */
function at(seconds: number, eventType: string) {
  return { reportId: REPORT, event: { eventType, occurredAt: NOON_MICROS + BigInt(seconds) * 1_000_000n } };
}

test('prints the growing trail of a report in time order, with the removed links', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const tracker = runTracker(bench, reader);
  const link = await bench.append(reader, 2, at(2, 'crash'));
  await waitUntilPrinted(tracker, ['12:00:02.000Z  "crash"  session']);
  await bench.append(reader, 0, { ...at(1, 'a "boss"'), source: 'named' });
  await waitUntilPrinted(tracker, [
    '12:00:01.000Z  "a \\"boss\\""  named',
    '12:00:02.000Z  "crash"  session',
  ]);
  await bench.append(reader, 2, { ...link, ...UNLINKED });
  await waitUntilPrinted(tracker, [
    '12:00:01.000Z  "a \\"boss\\""  named',
    '12:00:02.000Z  "crash"  session - unlinked',
  ]);
});

test('a late change does not restore a removed link', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const link = await bench.append(reader, 0, { ...at(1, 'crash'), ...UNLINKED });
  await bench.append(reader, 0, { ...link, kind: 'linked', version: LINK_VERSIONS.linked });
  await bench.append(reader, 0, at(2, 'last'));
  const tracker = runTracker(bench, reader);

  await waitUntilPrinted(tracker, [
    '12:00:01.000Z  "crash"  session - unlinked',
    '12:00:02.000Z  "last"  session',
  ]);
  expect(tracker.output.stdout).not.toContain('"crash"  session\n');
});

test('resumes after a broken connection without a missing link', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const tracker = runTracker(bench, reader);
  await bench.append(reader, 0, at(1, 'before'));
  await waitUntilPrinted(tracker, ['12:00:01.000Z  "before"  session']);
  bench.breakConnections();
  await bench.append(reader, 1, at(2, 'meanwhile'));

  await waitUntilPrinted(tracker, [
    '12:00:01.000Z  "before"  session',
    '12:00:02.000Z  "meanwhile"  session',
  ]);
  expect(tracker.output.stderr).toContain('the connection broke');
  expect(reports(tracker)).toHaveLength(2);
});

test('resumes after a restart, with its saved trail', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const first = runTracker(bench, reader);
  await bench.append(reader, 0, at(1, 'before'));
  await waitUntilPrinted(first, ['12:00:01.000Z  "before"  session']);
  await eventually(
    async () => existsSync(first.trailFile) && readFileSync(first.trailFile, 'utf8'),
    (saved) => typeof saved === 'string' && saved.includes('before'),
  );
  await stop(first);
  await bench.append(reader, 1, at(2, 'meanwhile'));
  const second = runTracker(bench, reader, first.trailFile);

  await waitUntilPrinted(second, ['12:00:01.000Z  "before"  session', '12:00:02.000Z  "meanwhile"  session']);
  expect(bench.responses.map(({ req }) => typeof req.headers['last-event-id'])).toEqual([
    'undefined',
    'string',
  ]);
});

test('reports which links expired before it received them, and continues with the links that are kept', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const first = runTracker(bench, reader);
  await bench.append(reader, 0, at(1, 'before'));
  await waitUntilPrinted(first, ['12:00:01.000Z  "before"  session']);
  await eventually(
    async () => existsSync(first.trailFile) && readFileSync(first.trailFile, 'utf8'),
    (saved) => typeof saved === 'string' && saved.includes('before'),
  );
  await stop(first);
  await bench.append(reader, 1, at(2, 'expired'));
  await bench.expire(8 * 24 * 3_600_000);
  await bench.append(reader, 1, at(3, 'kept'));
  const second = runTracker(bench, reader, first.trailFile);

  await waitUntilPrinted(second, ['12:00:01.000Z  "before"  session', '12:00:03.000Z  "kept"  session']);
  expect(second.output.stderr).toMatch(/links until \S+Z were not received/);
});

test('prints the reason and exits if the server rejects its token', async () => {
  const bench = await aStreamBench();
  const tracker = runTracker(bench, { ...bench.reader(), token: 'revoked' });

  await eventually(
    async () => tracker.child.exitCode,
    (code) => code === 1,
  );
  expect(tracker.output.stderr).toContain('401');
});

interface Tracker {
  readonly child: ChildProcess;
  readonly output: Output;
  readonly trailFile: string;
}

function runTracker({ baseUrl }: StreamBench, { token }: Reader, trailFile = aFile()): Tracker {
  const child = spawn(process.execPath, [EXAMPLE], {
    env: { ...ownEnvironment(), QUESTLOG_URL: baseUrl, QUESTLOG_TOKEN: token, TRAIL_FILE: trailFile },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const tracker = { child, output: collectOutput(child), trailFile };
  onTestFinished(() => stop(tracker));
  return tracker;
}

function aFile(): string {
  const directory = mkdtempSync(join(tmpdir(), 'bug-tracker-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return join(directory, 'not there yet', 'trail.json');
}

/** Waits until the last trail that the tracker printed has exactly these lines. */
async function waitUntilPrinted(tracker: Tracker, lines: readonly string[]): Promise<void> {
  const wanted = [`report ${REPORT}`, ...lines.map((line) => `  2026-11-21T${line}`)].join('\n');
  await eventually(
    async () => ({ last: reports(tracker).at(-1), errors: tracker.output.stderr }),
    ({ last }) => last === wanted,
  );
}

function reports({ output }: Tracker): string[] {
  return output.stdout
    .split(/^(?=report )/m)
    .map((text) => text.trimEnd())
    .filter((text) => text !== '');
}

async function stop({ child }: Tracker): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill();
  await exited;
}
