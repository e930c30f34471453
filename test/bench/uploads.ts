/**
 * `npm run bench:uploads`: compares the latency of events during 200 uploads of 10 MB with the latency without uploads, in one
 * run on a new product. Fails if the p99 grows by more than half, or if a file is rejected.
 */

import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { aProject, events, type TestProject } from '../e2e/builders.ts';
import { removeDataDir, startProduct } from '../e2e/product.ts';
import { type Connections, openConnections } from './connections.ts';
import { percentile } from './load/loadPhases.ts';
import { due } from './pace.ts';
import { memoryOf, sampleMemory } from './processFigures.ts';
import type { UploadsOutcome, UploadsWanted } from './uploads/uploadsClient.ts';

const MAX_RATIO = 1.5;
const EVENTS_A_REQUEST = 20;
const MIB = 1024 * 1024;

const { values } = parseArgs({
  options: {
    files: { type: 'string', default: '200' },
    megabytes: { type: 'string', default: '10' },
    /** Requests of events per second, sent when they are due, independent of earlier requests. */
    rate: { type: 'string', default: '100' },
    seconds: { type: 'string', default: '20' },
  },
});
const [files, bytes] = [Number(values.files), Number(values.megabytes) * 1_000_000];
const [rate, seconds] = [Number(values.rate), Number(values.seconds)];

const product = await startProduct();
try {
  const project = await aProject(product, { revision: 'B' });
  const connections = openConnections(product.credentials.baseUrl, project.token, 64);
  // Warms up the product.
  await sendEvents(connections, project, fixed(5));
  const alone = await sendEvents(connections, project, fixed(seconds));
  const before = memoryOf(product.pid).rssBytes;
  const memory = sampleMemory(product.pid);
  const uploads = putFiles({ baseUrl: product.credentials.baseUrl, token: project.token, files, bytes });
  const beside = await sendEvents(connections, project, { until: uploads });
  const outcome = await uploads;
  const highest = memory.highestSinceAsked();
  memory.stop();
  connections.close();
  const ratio = p99Of(beside) / p99Of(alone);
  const mibPerSecond = (files * bytes) / MIB / outcome.seconds;
  say(`events alone: ${told(alone)}`);
  say(`during ${files} uploads of ${values.megabytes} MB: ${told(beside)}`);
  say(
    `p99 ratio ${ratio.toFixed(2)}; files took ${outcome.seconds.toFixed(1)} s, ${mibPerSecond.toFixed(0)} MiB/s`,
  );
  say(`resident memory: ${toMib(before)} MiB before, at most ${toMib(highest)} MiB during`);
  if (outcome.taken !== files) fail(`${files - outcome.taken} files were not taken: ${outcome.refusals}`);
  if (!(ratio < MAX_RATIO)) fail(`the p99 is ${ratio.toFixed(2)} times as long; ${MAX_RATIO} is the bound`);
} finally {
  await product.stop();
  await removeDataDir(product);
}

type Duration = { readonly forMs: number } | { readonly until: Promise<unknown> };

function fixed(forSeconds: number): Duration {
  return { forMs: forSeconds * 1000 };
}

/** Returns the latencies in milliseconds, from the due time of each request. */
async function sendEvents(to: Connections, project: TestProject, duration: Duration): Promise<number[]> {
  const body = Buffer.from(JSON.stringify(events(EVENTS_A_REQUEST, { sessionId: project.sessionId })));
  const millis: number[] = [];
  const sent: Promise<void>[] = [];
  let isOver = false;
  if ('until' in duration) void duration.until.finally(() => (isOver = true));
  const beganMs = performance.now();
  for (let n = 0; !isOver; n++) {
    const dueMs = beganMs + (n * 1000) / rate;
    if ('forMs' in duration && dueMs - beganMs >= duration.forMs) break;
    await due(dueMs);
    sent.push(
      to.send('POST', '/v1/ingest/events', body).then(({ status }) => {
        if (status !== 201) fail(`events were answered ${status}`);
        millis.push(performance.now() - dueMs);
      }),
    );
  }
  await Promise.all(sent);
  return millis.sort((a, b) => a - b);
}

/** Uploads files in a separate thread, so that the events are sent on time. */
function putFiles(wanted: UploadsWanted): Promise<UploadsOutcome> {
  const worker = new Worker(new URL('./uploads/uploadsClient.ts', import.meta.url), { workerData: wanted });
  return new Promise((resolve, reject) => {
    worker.once('message', resolve).once('error', reject);
  });
}

function p99Of(millis: readonly number[]): number {
  return percentile(millis, 0.99);
}

function told(millis: readonly number[]): string {
  const [p50, p99] = [percentile(millis, 0.5), p99Of(millis)];
  return `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, longest ${(millis.at(-1) ?? 0).toFixed(1)} ms of ${millis.length} requests`;
}

function toMib(size: number): string {
  return (size / MIB).toFixed(0);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function fail(why: string): void {
  process.stderr.write(`bench:uploads: ${why}\n`);
  process.exitCode = 1;
}
