/** Tests decompression bombs: the memory of ingest stays bounded, and other requests are answered. */
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { beforeAll, expect, test } from 'vitest';
import { anEvent, type TestProject } from '../e2e/builders.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { isLong, recordFigure } from './figures.ts';
import { memoryMib, watchPeak } from './product.ts';

const MIB = 1024 * 1024;
const INFLATED = Buffer.alloc((isLong ? 512 : 128) * MIB, ' ');
const AT_ONCE = 64;
const ROUNDS = 4;
/** Memory that the garbage collector may not have freed yet. */
const MAX_KEPT_MIB = 64;
/** Memory of the buffered bodies, four outputs, and for brotli four windows of up to 16 MiB. */
const MAX_PEAK_MIB = 96;
/** Brotli options with the largest window that decoders accept. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 24 } };

const CODINGS: readonly [string, (bytes: Buffer) => Buffer][] = [
  ['gzip', (bytes) => gzipSync(bytes)],
  ['deflate', (bytes) => deflateSync(bytes)],
  ['br', (bytes) => brotliCompressSync(bytes, BROTLI)],
  ['zstd', (bytes) => zstdCompressSync(bytes)],
];

const shared = ownProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
  // Sends 64 concurrent requests that store nothing, so that the memory of sockets and compiled code is in the baseline.
  const empty = Buffer.from(`[${' '.repeat(MIB / 8)}]`);
  for (const [coding, compress] of [['identity', (bytes: Buffer) => bytes] as const, ...CODINGS]) {
    const answers = await atOnce(AT_ONCE, compress(empty), coding);
    expect(answers.filter((status) => status !== 400)).toEqual([]);
  }
});

const atOnce = (requests: number, body: Buffer, coding: string): Promise<number[]> =>
  Promise.all(
    Array.from({ length: requests }, async () => {
      return (await game.post(body, { 'Content-Encoding': coding })).status;
    }),
  );

test.each(CODINGS)(
  'answers 64 concurrent bombs in %s with 413 or 503 each, within bounded memory',
  async (coding, compress) => {
    const bomb = compress(INFLATED);
    const memory = (): number => memoryMib(shared.product.pid) ?? 0;
    const before = memory();
    // The collector frees the memory of a round at any time. Only a leak grows with each round.
    const after: number[] = [];
    const peak = watchPeak(shared.product.pid);
    for (let round = 0; round < ROUNDS; round++) {
      const statuses = await atOnce(AT_ONCE, bomb, coding);
      expect(statuses.filter((status) => status !== 413 && status !== 503)).toEqual([]);
      after.push(memory());
    }

    expect((await game.post([anEvent({ sessionId: game.sessionId })])).status).toBe(201);
    const [kept, most] = [Math.min(...after), peak()].map((mib) => Math.max(0, Math.round(mib - before)));
    expect(kept).toBeLessThanOrEqual(MAX_KEPT_MIB);
    expect(most).toBeLessThanOrEqual(MAX_PEAK_MIB);
    recordFigure(`${AT_ONCE} decompression bombs in ${coding} at the same time`, {
      tried: `${bomb.length} bytes each, ${INFLATED.length / MIB} MiB after decompression`,
      held: `status 413 or 503; memory use grows by at most ${most} MiB, and is ${kept} MiB higher afterwards`,
    });
  },
);

test('accepts a brotli body of another tenant during 64 bombs', async () => {
  const [bomb, other] = [brotliCompressSync(INFLATED, BROTLI), await shared.aProject({ revision: 'A' })];
  const [body, br] = [
    brotliCompressSync(JSON.stringify([anEvent({ sessionId: other.sessionId })])),
    { 'Content-Encoding': 'br' },
  ];
  const bombs = Array.from({ length: AT_ONCE }, () => game.post(bomb, br));

  expect((await other.post(body, br)).status).toBe(201);
  await Promise.all(bombs);
});

test.each([
  ['a million nested arrays', `${'['.repeat(1_000_000)}`],
  ['a million nested objects in a payload', `{"eventType":"x","payload":${'{"a":'.repeat(1_000_000)}`],
  ['100,000 unknown fields', `{${Array.from({ length: 100_000 }, (_, i) => `"k${i}":1`).join()}}`],
  ['100,000 repetitions of a field', `{${'"eventType":"x",'.repeat(100_000)}"a":1}`],
  [
    '20,000 keys that have the same hash in V8',
    `{"eventType":"x","payload":{${Array.from({ length: 20_000 }, (_, i) => `"${i * 65_536}":1`).join()}}}`,
  ],
])('answers a body with %s and the next request', async (what, body) => {
  const { status } = await game.post(body);
  expect(status).toBeGreaterThanOrEqual(400);
  expect(status).toBeLessThan(500);
  expect((await game.post([anEvent({ sessionId: game.sessionId })])).status).toBe(201);
  recordFigure(`A body with ${what}`, { tried: `${body.length} bytes`, held: `status ${status}` });
});
