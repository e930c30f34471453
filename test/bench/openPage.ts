/**
 * `npm run bench:open-page`: opens a live tail in Chromium during 2,000 events a second, and measures its frames and memory.
 * Fails if the memory grows, or if more than 1 % of the frames take over 50 ms.
 */
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { aProject, events } from '../e2e/builders.ts';
import { removeDataDir, startProduct } from '../e2e/product.ts';
import { findProgram } from '../games/gamePages.ts';
import { openConnections } from './connections.ts';
import { due } from './pace.ts';

const EVENTS_A_REQUEST = 20;
const MAX_SHARE_OF_LONG_FRAMES = 0.01;
const MAX_GROWTH_BYTES = 10 * 1024 * 1024;
const MIB = 1024 * 1024;

const { values } = parseArgs({
  options: { rate: { type: 'string', default: '2000' }, minutes: { type: 'string', default: '10' } },
});
const [rate, minutes] = [Number(values.rate), Number(values.minutes)];

/** Counts all frames, and the frames that start more than 50 ms after the previous frame. */
const COUNT_FRAMES = `(() => {
  window.frames_ = { all: 0, long: 0, longestMs: 0 };
  let last = performance.now();
  const next = (now) => {
    const ms = now - last;
    last = now;
    window.frames_.all += 1;
    if (ms > 50) window.frames_.long += 1;
    window.frames_.longestMs = Math.max(window.frames_.longestMs, ms);
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})()`;

const product = await startProduct();
const browser = await chromium.launch({ executablePath: findProgram('chromium') ?? 'chromium' });
try {
  const project = await aProject(product, { revision: 'B' });
  const connections = openConnections(product.credentials.baseUrl, project.token, 16);
  const body = Buffer.from(
    JSON.stringify(
      events(EVENTS_A_REQUEST, { sessionId: project.sessionId, payload: { level: 3, hp: 0.5 } }),
    ),
  );
  const page = await browser.newPage();
  await page.goto(`${product.credentials.adminUrl}/#token=${product.credentials.adminToken}`);
  await page.getByText('Live.').waitFor();
  const devtools = await page.context().newCDPSession(page);
  /** Heap after a garbage collection. */
  const heapBytes = async (): Promise<number> => {
    await devtools.send('HeapProfiler.collectGarbage');
    const { usedSize } = await devtools.send('Runtime.getHeapUsage');
    return usedSize;
  };
  const beganMs = performance.now();
  const minute = async (of: number): Promise<number> => {
    for (let n = 0; ; n++) {
      const dueMs = beganMs + of * 60_000 + (n * EVENTS_A_REQUEST * 1000) / rate;
      if (dueMs - beganMs >= (of + 1) * 60_000) break;
      await due(dueMs);
      void connections.send('POST', '/v1/ingest/events', body);
    }
    return await heapBytes();
  };
  const heaps: number[] = [];
  for (let of = 0; of < minutes; of++) {
    heaps.push(await minute(of));
    // Excludes the first minute, in which the page fills its buffers.
    if (of === 0) await page.evaluate(COUNT_FRAMES);
  }
  const frames = await page.evaluate<{ all: number; long: number; longestMs: number }>('window.frames_');
  const status = await page.getByRole('status').textContent();
  connections.close();
  const growth = (heaps.at(-1) ?? 0) - (heaps[0] ?? 0);
  say(status ?? '');
  say(`${frames.all} frames, ${frames.long} over 50 ms, the longest ${frames.longestMs.toFixed(0)} ms`);
  say(`heap after each minute, MiB: ${heaps.map((bytes) => (bytes / MIB).toFixed(1)).join(' ')}`);
  if (growth > MAX_GROWTH_BYTES) fail(`the page grew by ${(growth / MIB).toFixed(1)} MiB`);
  if (frames.long > frames.all * MAX_SHARE_OF_LONG_FRAMES) fail(`${frames.long} frames took over 50 ms`);
} finally {
  await browser.close();
  await product.stop();
  await removeDataDir(product);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function fail(why: string): void {
  process.stderr.write(`bench:open-page: ${why}\n`);
  process.exitCode = 1;
}
