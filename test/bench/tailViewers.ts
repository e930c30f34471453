/**
 * `npm run bench:tail-viewers`: measures the CPU that three viewers of the live tail cost the ingest process. Rounds with and without
 * viewers alternate on one product under the same load. Fails if the viewers cost more than 5 %.
 */
import { parseArgs } from 'node:util';
import { aProject, events } from '../e2e/builders.ts';
import { removeDataDir, startProduct } from '../e2e/product.ts';
import { openConnections } from './connections.ts';
import { percentile } from './load/loadPhases.ts';
import { due } from './pace.ts';
import { cpuMicrosOf } from './processFigures.ts';

const MAX_RATIO = 1.05;
const EVENTS_A_REQUEST = 20;

const { values } = parseArgs({
  options: {
    /** Events per second, sent when they are due. */
    rate: { type: 'string', default: '10000' },
    lookers: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '5' },
  },
});
const [rate, lookers] = [Number(values.rate), Number(values.lookers)];
const [seconds, rounds] = [Number(values.seconds), Number(values.rounds)];

const product = await startProduct();
try {
  const project = await aProject(product, { revision: 'B' });
  const connections = openConnections(product.credentials.baseUrl, project.token, 32);
  const body = Buffer.from(JSON.stringify(events(EVENTS_A_REQUEST, { sessionId: project.sessionId })));
  const load = async (): Promise<number> => {
    const beganMicros = cpuMicrosOf(product.pid);
    const beganMs = performance.now();
    const sent: Promise<void>[] = [];
    for (let n = 0; n < (rate / EVENTS_A_REQUEST) * seconds; n++) {
      const dueMs = beganMs + (n * EVENTS_A_REQUEST * 1000) / rate;
      await due(dueMs);
      sent.push(
        connections.send('POST', '/v1/ingest/events', body).then(({ status }) => {
          if (status !== 201) throw new Error(`events were answered ${status}`);
        }),
      );
    }
    await Promise.all(sent);
    return (cpuMicrosOf(product.pid) - beganMicros) / (rate * seconds);
  };
  // Warms up the product.
  await load();
  const figures: { alone: number[]; looked: number[] } = { alone: [], looked: [] };
  for (let round = 0; round < rounds; round++) {
    figures.alone.push(await load());
    const stop = await look();
    figures.looked.push(await load());
    say(`${stop()}`);
  }
  connections.close();
  const [alone, looked] = [figures.alone, figures.looked].map((all) =>
    percentile(
      all.toSorted((a, b) => a - b),
      0.5,
    ),
  );
  const ratio = (looked ?? 0) / (alone ?? 1);
  say(`CPU an event, no viewers: ${told(figures.alone)} µs; ${lookers} viewers: ${told(figures.looked)} µs`);
  say(`ratio of the medians ${ratio.toFixed(3)} at ${rate} events a second`);
  if (!(ratio < MAX_RATIO)) {
    process.stderr.write(
      `bench:tail-viewers: ${ratio.toFixed(3)} times the CPU; ${MAX_RATIO} is the maximum\n`,
    );
    process.exitCode = 1;
  }
} finally {
  await product.stop();
  await removeDataDir(product);
}

/** Opens a live tail. @returns a function that closes the tail and returns the last message */
async function look(): Promise<() => string> {
  const { adminUrl, adminToken } = product.credentials;
  const over = new AbortController();
  let last = 'nothing';
  for (let n = 0; n < lookers; n++) {
    const headers = { Authorization: `Bearer ${adminToken}` };
    const { body } = await fetch(`${adminUrl}/admin/tail`, { headers, signal: over.signal });
    void (async () => {
      for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
        last = /"matched".*/.exec(text)?.[0] ?? last;
      }
    })().catch(() => {});
  }
  return () => {
    over.abort();
    return `last message of a viewer: ${last}`;
  };
}

function told(all: readonly number[]): string {
  return all.map((micros) => micros.toFixed(1)).join(' ');
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
