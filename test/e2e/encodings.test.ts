/**
 * Tests bodies with a Content-Encoding: accepted codings and rejected codings. The connection must stay usable after a
 * rejection.
 */
import { randomBytes } from 'node:crypto';
import {
  brotliCompressSync,
  constants,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, events, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';
import { openWire, type Wire, type WireAnswer, type WireRequest } from './wire.ts';

const shared = sharedProduct();
const MIB = 1024 * 1024;
const quickBrotli = (bytes: Buffer): Buffer =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } });
const GZIP = { coding: 'gzip', compress: (bytes: Buffer): Buffer => gzipSync(bytes) };
const DEFLATE = { coding: 'deflate', compress: (bytes: Buffer): Buffer => deflateSync(bytes) };
const ZSTD = { coding: 'zstd', compress: (bytes: Buffer): Buffer => zstdCompressSync(bytes) };
const CODINGS = [GZIP, DEFLATE, { coding: 'br', compress: quickBrotli }, ZSTD];
const EMPTY_FRAME = zstdCompressSync(Buffer.alloc(0));
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe.concurrent.each(CODINGS)('a body in $coding', ({ coding, compress }) => {
  test('is inflated and stored like any other', async () => {
    const sent = events(20, { sessionId: game.sessionId });
    const answer = await game.post(compress(json(sent)), { 'Content-Encoding': coding });

    expect(answer.status).toBe(201);
    expect(answer.json().map(payloadOf)).toEqual(sent.map(payloadOf));
  });

  test('accepts the coding’s name in any case', async () => {
    const answer = await game.post(compress(oneEvent()), { 'Content-Encoding': coding.toUpperCase() });

    expect(answer.status).toBe(201);
  });

  test('with invalid bytes is a 400, and the connection stays usable', async () => {
    await expectRejectionThenSuccess(
      coding,
      Buffer.from('this is not compressed at all'),
      400,
      'invalid_encoding',
    );
  });

  test('that is truncated is a 400, and nothing is stored', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const whole = compress(json([anEvent({ sessionId: own.sessionId, payload: noise(2_000) })]));
    const answer = await own.post(whole.subarray(0, whole.length - 3), { 'Content-Encoding': coding });

    expect(answer.status).toBe(400);
    expect((await own.get('/v1/quota')).json().used).toBe(0);
  });

  test('with trailing data is a 400', async () => {
    const answer = await game.post(Buffer.concat([compress(oneEvent()), Buffer.from('x'.repeat(20))]), {
      'Content-Encoding': coding,
    });

    expect(answer.status).toBe(400);
    expect(answer.json().code).toBe('invalid_encoding');
  });

  test('that is empty is a 400', async () => {
    expect((await game.post(Buffer.alloc(0), { 'Content-Encoding': coding })).status).toBe(400);
  });

  test('that inflates to 8 MiB is accepted, and one byte more is a 413', async () => {
    const fits = await game.post(compress(paddedTo(8 * MIB)), { 'Content-Encoding': coding });
    const exceeds = await game.post(compress(paddedTo(8 * MIB + 1)), { 'Content-Encoding': coding });

    expect(fits.status).toBe(201);
    expect(exceeds.status).toBe(413);
    expect(exceeds.json().code).toBe('body_too_large');
  });

  test('that is a decompression bomb is a 413, before its invalid end is read', async () => {
    const bomb = compress(Buffer.alloc(64 * MIB, ' '));
    await expectRejectionThenSuccess(coding, bomb.subarray(0, bomb.length - 3), 413, 'body_too_large');
  });
});

describe.concurrent('a Content-Encoding', () => {
  test('of identity means a body without a coding', async () => {
    expect((await game.post(oneEvent(), { 'Content-Encoding': 'identity' })).status).toBe(201);
  });

  test.each(['lz4', 'compress', 'gzip, gzip', 'gzip, br', 'gzip;q=1', '__proto__', 'constructor'])(
    'that is not supported is a 415 that lists the supported codings: %s',
    async (coding) => {
      const answer = await game.post(oneEvent(), { 'Content-Encoding': coding });

      expect(answer.status).toBe(415);
      expect(answer.json().code).toBe('unsupported_encoding');
      expect(answer.headers.get('accept-encoding')).toBe('gzip, deflate, br, zstd');
    },
  );

  test('of deflate means zlib (RFC 9110): raw deflate is a 400', async () => {
    expect((await game.post(deflateRawSync(oneEvent()), { 'Content-Encoding': 'deflate' })).status).toBe(400);
  });

  test('that does not match the body is a 400: JSON announced as gzip', async () => {
    const answer = await game.post(oneEvent(), { 'Content-Encoding': 'gzip' });

    expect(answer.status).toBe(400);
    expect(answer.json().code).toBe('invalid_encoding');
  });

  test.each([GZIP, DEFLATE])(
    'with a checksum detects damage in the middle as a 400: $coding',
    async (each) => {
      const bytes = each.compress(json([anEvent({ sessionId: game.sessionId, payload: noise(2_000) })]));
      bytes.fill(0xa5, bytes.length >> 1, (bytes.length >> 1) + 16);
      const answer = await game.post(bytes, { 'Content-Encoding': each.coding });

      expect(answer.status).toBe(400);
      expect(answer.json().code).toBe('invalid_encoding');
    },
  );

  test.each([GZIP, ZSTD])(
    'allows several consecutive members or frames as one body: $coding',
    async ({ coding, compress }) => {
      const whole = json(events(3, { sessionId: game.sessionId }));
      const parts = [whole.subarray(0, 40), whole.subarray(40)].map(compress);
      const answer = await game.post(Buffer.concat(parts), { 'Content-Encoding': coding });

      expect(answer.status).toBe(201);
      expect(answer.json()).toHaveLength(3);
    },
  );

  test('is a 400 if the body has an excessive number of frames', async () => {
    const frames = Buffer.concat(Array.from({ length: 50_000 }, () => EMPTY_FRAME));
    const answer = await game.post(Buffer.concat([frames, zstdCompressSync(oneEvent())]), {
      'Content-Encoding': 'zstd',
    });

    expect(answer.status).toBe(400);
    expect(answer.json().code).toBe('invalid_encoding');
  });

  test('of a body that is not UTF-8 after inflation is a 400', async () => {
    const body = Buffer.concat([Buffer.from('{"eventType":"'), Buffer.from([0xff]), Buffer.from('"}')]);
    const answer = await game.post(gzipSync(body), { 'Content-Encoding': 'gzip' });

    expect(answer.status).toBe(400);
    expect(answer.json().code).toBe('invalid_utf8');
  });
});

describe.concurrent('a body without a coding', () => {
  test('of 8 MiB is accepted, one byte more is a 413, and the client receives the answer', async () => {
    expect((await game.post(paddedTo(8 * MIB))).status).toBe(201);
    // Uses a separate connection, because a rejection for an announced length closes the connection.
    const rejected = await postOnce(paddedTo(8 * MIB + 1), {});
    expect([rejected.status, JSON.parse(rejected.text).code]).toEqual([413, 'body_too_large']);
  });

  test('of 24 MiB in chunks is a 413, and the client receives the answer', async () => {
    expect((await postOnce(paddedTo(24 * MIB), { sending: 'chunked' })).status).toBe(413);
  });

  test('in chunks is accepted', async () => {
    expect((await postOnce(oneEvent(), { sending: 'chunked' })).status).toBe(201);
  });
});

/** Sends a request that is rejected, and then a request that is accepted on the same connection. */
async function expectRejectionThenSuccess(coding: string, body: Buffer, status: number, code: string) {
  const wire = await openWire(shared.product.credentials.baseUrl);
  const rejected = await post(wire, body, { headers: { 'Content-Encoding': coding } });
  expect(rejected.status).toBe(status);
  expect(rejected.headers.get('content-type')).toMatch(/^application\/problem\+json/);
  expect(JSON.parse(rejected.text).code).toBe(code);
  expect((await post(wire, oneEvent())).status).toBe(201);
  wire.close();
}

async function postOnce(body: Buffer, of: Partial<WireRequest>): Promise<WireAnswer> {
  const wire = await openWire(shared.product.credentials.baseUrl);
  const answer = await post(wire, body, of);
  wire.close();
  return answer;
}

function post(
  wire: Wire,
  body: Buffer,
  { headers = {}, ...of }: Partial<WireRequest> = {},
): Promise<WireAnswer> {
  return wire.ask({
    path: '/v1/ingest/events',
    headers: { Authorization: `Bearer ${game.token}`, 'Content-Type': 'application/json', ...headers },
    body,
    ...of,
  });
}

function oneEvent(): Buffer {
  return json(anEvent({ sessionId: game.sessionId }));
}

/** Returns one event followed by spaces, `bytes` bytes in total. */
function paddedTo(bytes: number): Buffer {
  const padded = Buffer.alloc(bytes, ' ');
  oneEvent().copy(padded, 0);
  return padded;
}

/** Returns a random payload that no coding can compress much. */
function noise(bytes: number): object {
  return { noise: randomBytes(bytes).toString('base64') };
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function payloadOf({ payload }: { payload?: unknown }): unknown {
  return payload;
}
