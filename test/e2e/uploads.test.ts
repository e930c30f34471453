/** Tests uploads. A file is stored completely or not at all, and only its project can read the file. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import { isUuidV7 } from '@questlog/schemas/uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { anUnknownId, aToken, eventually, type TestProject } from './builders.ts';
import { type Answer, collectOutput, spawnProduct } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const UPLOADS = '/v1/ingest/uploads';
const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject();
});

describe.concurrent('an upload', () => {
  test('returns an address, accepts the bytes there, and returns them to its project', async () => {
    const bytes = randomBytes(3223);
    // Sends a body as the published plugin does: sorted keys, no spaces.
    const answer = await asked(
      `{"attachmentType":"log_bundle","fileName":"game.log","mimeType":"text/plain","sessionId":"${game.sessionId}","sizeBytes":3223}`,
    );
    const upload = answer.json();
    expect(answer.status).toBe(201);
    expect(answer.headers.get('location')).toBe(`/v1/uploads/${upload.uploadId}`);
    expect(isUuidV7(upload.uploadId)).toBe(true);
    expect(upload).toEqual({
      uploadId: upload.uploadId,
      storageKey: expect.stringMatching(
        new RegExp(`^\\d{4}-\\d\\d-\\d\\d/${game.projectId}/${upload.uploadId}$`),
      ),
      uploadUrl: expect.stringContaining(`${shared.product.credentials.baseUrl}/v1/uploads/`),
      publicUrl: null,
      expiresAt: expect.stringMatching(/Z$/),
      requiredHeaders: { 'Content-Type': 'text/plain' },
    });
    const expiresInMs = Date.parse(upload.expiresAt) - Date.now();
    expect(expiresInMs).toBeGreaterThan(55 * 60_000);
    expect(expiresInMs).toBeLessThanOrEqual(60 * 60_000);

    expect((await game.request('GET', `/v1/uploads/${upload.uploadId}`)).status).toBe(404);
    expect((await put(upload, bytes)).status).toBe(200);
    const read = await game.request('GET', `/v1/uploads/${upload.uploadId.toUpperCase()}`);
    expect(read.status).toBe(200);
    expect(read.bytes.equals(bytes)).toBe(true);
  });

  test('is downloaded with its name and type for any content', async () => {
    const { uploadId } = await stored('<script>', { fileName: 'ünï "x".html', mimeType: 'text/html' });
    const { headers } = await game.request('GET', `/v1/uploads/${uploadId}`);
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'text/html',
      'content-length': '8',
      'content-disposition': `attachment; filename="_n_ _x_.html"; filename*=UTF-8''%C3%BCn%C3%AF%20%22x%22.html`,
      'x-content-type-options': 'nosniff',
      'content-security-policy': 'sandbox',
    });
    const head = await game.request('HEAD', `/v1/uploads/${uploadId}`);
    expect([head.status, head.headers.get('content-length'), head.bytes.length]).toEqual([200, '8', 0]);
  });

  test('of another project gets a 404', async () => {
    const { uploadId } = await stored('mine');
    const other = await shared.aProject({ tenantId: game.tenantId });
    for (const id of [uploadId, anUnknownId(), 'x', '%00', '..%2f..']) {
      expect([id, (await other.request('GET', `/v1/uploads/${id}`)).status]).toEqual([id, 404]);
    }
  });

  test('needs the scope reports:write to create, read to read, and no token for its bytes', async () => {
    const { uploadId } = await stored('x');
    const ask = async (scope: string, method: string, path: string, body?: object): Promise<number> => {
      const { token } = await aToken(shared.product, game.projectId, { scopes: [scope] });
      const headers = { Authorization: `Bearer ${token}` };
      return (await game.request(method, path, { headers, body })).status;
    };
    expect(await ask('reports:write', 'POST', UPLOADS, aFile())).toBe(201);
    expect(await ask('events:write', 'POST', UPLOADS, aFile())).toBe(403);
    expect(await ask('reports:write', 'GET', `/v1/uploads/${uploadId}`)).toBe(403);
  });

  test('can be repeated with the same bytes only', async () => {
    const upload = (await asked(aFile())).json();
    expect((await put(upload, 'first')).status).toBe(200);
    expect((await put(upload, 'first')).json()).toEqual({ uploadId: upload.uploadId, sizeBytes: 5 });
    expect((await put(upload, 'other')).json()).toMatchObject({ status: 409, code: 'conflict' });
    expect((await game.request('GET', `/v1/uploads/${upload.uploadId}`)).text()).toBe('first');
  });

  test('cannot store a part of a file', async () => {
    const upload = (await asked(aFile())).json();
    const answer = await put(upload, 'second half', 'text/plain', { 'Content-Range': 'bytes 5-15/16' });
    expect(answer.json()).toMatchObject({ status: 400, code: 'invalid_request' });
    expect((await put(upload, 'first second half')).status).toBe(200);
  });

  test('is rejected while its project is suspended, also with an earlier address', async () => {
    const other = await shared.aProject();
    const upload = (await other.request('POST', UPLOADS, { body: aFile() })).json();
    const suspend = (suspended: boolean) =>
      shared.product.admin('PATCH', `/admin/projects/${other.projectId}`, { suspended });
    await suspend(true);
    expect((await put(upload, 'x')).json()).toMatchObject({ status: 403, code: 'invalid_upload_address' });
    await suspend(false);
    expect((await put(upload, 'x')).status).toBe(200);
  });

  test('above the limit of its kind is rejected during the transfer, and not stored', async () => {
    const upload = (await asked(aFile({ attachmentType: 'screenshot', mimeType: 'image/png' }))).json();
    const answer = await put(upload, Buffer.alloc(10 * 1024 * 1024 + 1), 'image/png');
    expect(answer.json()).toMatchObject({ status: 413, code: 'upload_too_large' });
    expect((await game.request('GET', `/v1/uploads/${upload.uploadId}`)).status).toBe(404);
  });

  test('in progress ends within 2 s of the revocation of its token, also without data', async () => {
    const { id, token } = await aToken(shared.product, game.projectId);
    const headers = { Authorization: `Bearer ${token}` };
    const upload = (await game.request('POST', UPLOADS, { headers, body: aFile({ sizeBytes: 9 }) })).json();
    const sent = request(upload.uploadUrl, { method: 'PUT', headers: upload.requiredHeaders });
    const ended = new Promise((resolve) => sent.once('close', resolve));
    // Ignores the error, because the `close` event also reports the end of the request.
    sent.on('error', () => {});
    sent.write('half');
    const inFlight = async () => (await shared.product.admin('GET', '/metrics')).text();
    await eventually(inFlight, (text) => /^questlog_uploads_in_flight [1-9]/m.test(text));
    await shared.product.admin('DELETE', `/admin/tokens/${id}`);
    const revokedAt = performance.now();

    await ended;
    expect(performance.now() - revokedAt).toBeLessThan(2_000);
    expect((await game.request('GET', `/v1/uploads/${upload.uploadId}`)).status).toBe(404);
  });

  test('in progress survives the rejected start of an operations process on the same folder', async () => {
    const upload = (await asked(aFile({ sizeBytes: 9 }))).json();
    const sent = request(upload.uploadUrl, { method: 'PUT', headers: upload.requiredHeaders });
    const answered = new Promise<number | undefined>((resolve, reject) => {
      sent.once('response', ({ statusCode }) => resolve(statusCode));
      sent.once('error', reject);
    });
    sent.write('half');
    const inFlight = async () => (await shared.product.admin('GET', '/metrics')).text();
    await eventually(inFlight, (text) => /^questlog_uploads_in_flight [1-9]/m.test(text));
    const operations = spawnProduct({
      dataDir: shared.product.dataDir,
      args: ['operations'],
      env: {
        ...{ KAFKA_BROKERS: 'a:9092', SCHEMA_REGISTRY_URL: 'http://a', CLICKHOUSE_URL: 'http://a' },
        ...{ QUESTLOG_UPLOADS: 'folder', QUESTLOG_ADMIN_TOKEN: 'of sixteen characters or more' },
      },
    });
    const output = collectOutput(operations);
    expect((await once(operations, 'close'))[0]).toBe(1);
    expect(output.stderr).toContain('QUESTLOG_UPLOADS: must not be folder here');

    sent.end('other');
    expect(await answered).toBe(200);
    expect((await game.request('GET', `/v1/uploads/${upload.uploadId}`)).text()).toBe('halfother');
  });

  test('with a changed address is rejected, and not stored', async () => {
    const upload = (await asked(aFile({ sizeBytes: 1 }))).json();
    const uploadUrl = upload.uploadUrl.replace('bytes=1', 'bytes=2');
    expect((await put({ ...upload, uploadUrl }, 'xx')).json()).toMatchObject({
      status: 403,
      code: 'invalid_upload_address',
    });
    expect((await game.request('GET', `/v1/uploads/${upload.uploadId}`)).status).toBe(404);
  });
});

describe.concurrent('a request for an upload', () => {
  test.each([
    ['a size that is a float', '"sizeBytes":935.0'],
    ['an empty session', '"sessionId":""'],
    ['nulls', '"sizeBytes":null,"sessionId":null'],
    ['fields that nobody knows', '"x":1'],
  ])('may have %s', async (_, fields) => {
    const body = `${JSON.stringify(aFile()).slice(0, -1)},${fields}}`;
    expect((await asked(body)).status).toBe(201);
  });

  test.each([
    ['no attachmentType', { attachmentType: undefined }, '/attachmentType', 400],
    ['an attachmentType that there is not', { attachmentType: 'movie' }, '/attachmentType', 400],
    ['no fileName', { fileName: undefined }, '/fileName', 400],
    ['an empty fileName', { fileName: '' }, '/fileName', 400],
    ['a fileName of another type', { fileName: 7 }, '/fileName', 400],
    ['a fileName that leads elsewhere', { fileName: '../../etc/passwd' }, '/fileName', 400],
    ['a fileName with a NUL', { fileName: 'a\0.png' }, '/fileName', 400],
    ['a fileName of 4 KiB', { fileName: 'x'.repeat(4096) }, '/fileName', 400],
    ['no mimeType', { mimeType: undefined }, '/mimeType', 400],
    ['a mimeType with a line end', { mimeType: 'text/plain\r\nSet-Cookie: x' }, '/mimeType', 400],
    ['half a byte', { sizeBytes: 935.5 }, '/sizeBytes', 400],
    ['fewer bytes than none', { sizeBytes: -1 }, '/sizeBytes', 400],
    ['a size as text', { sizeBytes: '935' }, '/sizeBytes', 400],
    ['a session that is no UUID', { sessionId: 'x' }, '/sessionId', 400],
    ['more bytes than its kind has', { sizeBytes: 50 * 1024 * 1024 + 1 }, '/sizeBytes', 413],
    ['an SVG', { attachmentType: 'screenshot', mimeType: 'image/svg+xml' }, '/mimeType', 415],
    ['HTML', { attachmentType: 'screenshot', mimeType: 'text/html' }, '/mimeType', 415],
  ])('with %s is refused, and the field is named', async (_, of, pointer, status) => {
    const answer = await asked(aFile(of));
    expect(answer.json()).toMatchObject({ status, errors: [{ pointer }] });
  });

  test('of an unknown kind gets the list of kinds', async () => {
    expect((await asked(aFile({ attachmentType: 'movie' }))).json().detail).toContain(
      'screenshot, video, save_state, log_bundle, other',
    );
  });

  test('of another media type than JSON gets a 415', async () => {
    const headers = { 'Content-Type': 'text/plain' };
    expect((await game.request('POST', UPLOADS, { headers, body: '{}' })).status).toBe(415);
  });
});

interface Address {
  readonly uploadId: string;
  readonly uploadUrl: string;
}

function aFile(of: Record<string, unknown> = {}): object {
  return { attachmentType: 'log_bundle', fileName: 'game.log', mimeType: 'text/plain', ...of };
}

function asked(body: unknown): Promise<Answer> {
  return game.request('POST', UPLOADS, { body });
}

/** Sends the file. The request has no token, because the upload URL needs no token. */
function put(
  { uploadUrl }: Address,
  body: Buffer | string,
  type = 'text/plain',
  more: Record<string, string> = {},
): Promise<Answer> {
  const path = uploadUrl.slice(shared.product.credentials.baseUrl.length);
  return shared.product.request('PUT', path, {
    headers: { 'Content-Type': type, Authorization: '', ...more },
    body,
  });
}

async function stored(bytes: string, of: { fileName?: string; mimeType?: string } = {}): Promise<Address> {
  const upload: Address = (await asked(aFile(of))).json();
  expect((await put(upload, bytes, of.mimeType)).status).toBe(200);
  return upload;
}
