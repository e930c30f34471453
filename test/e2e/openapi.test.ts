/** Tests that GET /openapi.json describes the behavior of the product. Checks each operation and each status. */
import { randomUUID } from 'node:crypto';
import { Compile } from 'typebox/schema';
import { beforeAll, describe, expect, test } from 'vitest';
import { aKey, anEvent, aToken, events } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

interface Operation {
  readonly summary: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly responses: Record<
    string,
    {
      readonly description: string;
      readonly content?: Record<string, { schema: object }>;
      readonly headers: Record<string, object>;
    }
  >;
}

interface Document {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { readonly schemas: Record<string, { properties: Record<string, unknown> }> };
}

const shared = sharedProduct();
let document: Document;
let seen: { operation: string; status: number; answer: Answer }[];

beforeAll(async () => {
  const answer = await fetch(`${shared.product.credentials.baseUrl}/openapi.json`);
  expect([answer.status, answer.headers.get('content-type')]).toEqual([
    200,
    expect.stringMatching(/^application\/json/),
  ]);
  document = JSON.parse(await answer.text());
  seen = await everyAnswer();
});

describe('the document', () => {
  test('is OpenAPI 3.1, needs no token, and names this product', () => {
    expect(document.openapi).toMatch(/^3\.1\.\d+$/);
    expect(document.info).toMatchObject({ title: 'Questlog', version: expect.any(String) });
  });

  test('has exactly the operations of the public listener', () => {
    expect(operationsOf(document)).toEqual([
      'DELETE /v1/reports/{id}',
      'GET /health',
      'GET /openapi.json',
      'GET /v1/builds',
      'GET /v1/events',
      'GET /v1/events/{id}',
      'GET /v1/linked-events',
      'GET /v1/players/{externalId}/sessions',
      'GET /v1/quota',
      'GET /v1/reports',
      'GET /v1/reports/{id}',
      'GET /v1/reports/{id}/events',
      'GET /v1/sessions/{id}',
      'GET /v1/sessions/{id}/events',
      'GET /v1/uploads/{id}',
      'POST /v1/ingest/events',
      'POST /v1/ingest/reports',
      'POST /v1/ingest/sessions',
      'POST /v1/ingest/uploads',
      'PUT /v1/uploads/{id}',
    ]);
  });

  test('references only existing schemas', () => {
    const names = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(
      ([, name]) => name ?? '',
    );

    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !(name in document.components.schemas))).toEqual([]);
  });

  test('lists each parameter of a path', () => {
    for (const [path, operations] of Object.entries(document.paths)) {
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      for (const { parameters = [] } of Object.values(operations)) {
        expect(parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name)).toEqual(
          inPath,
        );
      }
    }
  });

  test('documents exactly the returned statuses, including 501, 503, 408, and 417', () => {
    const answered = new Set(seen.map(({ operation, status }) => `${operation} ${status}`));
    const documented = operationsOf(document).flatMap((operation) =>
      Object.keys(responsesOf(operation))
        // Omits the stream of linked events, because other tests cover it.
        .filter(
          (status) => !['408', '417', '501', '503'].includes(status) && operation !== 'GET /v1/linked-events',
        )
        // Omits the 429 of reads. Reads get a 429 only without a valid token, and `test/abuse/floods.test.ts` tests that limit.
        .filter((status) => status !== '429' || !operation.startsWith('GET '))
        .map((status) => `${operation} ${status}`)
        // Omits the status for an erased session, because other tests cover it.
        .filter((each) => each !== 'POST /v1/ingest/uploads 404'),
    );

    expect([...answered].toSorted()).toEqual(documented.toSorted());
  });

  test('has schemas and media types that match the responses', () => {
    for (const { operation, status, answer } of seen) {
      const content = responsesOf(operation)[status]?.content;
      if (content === undefined) continue;
      if ('*/*' in content) continue;
      const type = answer.headers.get('content-type')?.split(';')[0] ?? '';
      expect([operation, status, Object.keys(content)]).toEqual([operation, status, [type]]);
      expect([operation, status, errorsOf(content[type]?.schema ?? {}, answer.json())]).toEqual([
        operation,
        status,
        [],
      ]);
    }
  });

  test('lists each header of a response that web pages can read', () => {
    const missing = seen.flatMap(({ operation, status, answer: { headers } }) => {
      const listed = Object.keys(responsesOf(operation)[status]?.headers ?? {});
      const exposed = headers.get('access-control-expose-headers')?.split(', ') ?? [];
      expect(exposed).toContain('RateLimit');
      const returned = exposed.filter((name) => headers.has(name));
      return returned
        .filter((name) => !listed.includes(name))
        .map((name) => `${operation} ${status}: ${name}`);
    });

    expect(missing).toEqual([]);
  });

  test('lists every field of a response', () => {
    const { Event, EventPage, Session, SessionCreated, SessionPage, BuildPage, Quota, Problem } =
      document.components.schemas;
    const { Report, ReportCreated, ReportEventPage, ReportPage, Upload, UploadStored } =
      document.components.schemas;
    const fieldsOf = (operation: string, status: number): string[] => {
      const found = seen.find((one) => one.operation === operation && one.status === status);
      const body = found?.answer.json();
      return Object.keys(Array.isArray(body) ? body[0] : body).toSorted();
    };
    const named = (schema: { properties: object } | undefined): string[] =>
      Object.keys(schema?.properties ?? {}).toSorted();

    expect(fieldsOf('POST /v1/ingest/events', 201)).toEqual(named(Event));
    expect(fieldsOf('GET /v1/events/{id}', 200)).toEqual(named(Event));
    expect(fieldsOf('GET /v1/sessions/{id}/events', 200)).toEqual(named(EventPage));
    expect(fieldsOf('GET /v1/events', 200)).toEqual(named(EventPage));
    expect(fieldsOf('POST /v1/ingest/sessions', 201)).toEqual(named(SessionCreated));
    expect(fieldsOf('GET /v1/sessions/{id}', 200)).toEqual(named(Session));
    expect(fieldsOf('GET /v1/builds', 200)).toEqual(named(BuildPage));
    expect(fieldsOf('GET /v1/players/{externalId}/sessions', 200)).toEqual(named(SessionPage));
    const rare = ['attachmentsMissing', 'eventIdsTruncated', 'idempotent'];
    expect([...fieldsOf('POST /v1/ingest/reports', 201), ...rare].toSorted()).toEqual(named(ReportCreated));
    expect(fieldsOf('GET /v1/reports/{id}', 200)).toEqual(named(Report));
    expect(fieldsOf('GET /v1/reports/{id}/events', 200)).toEqual(named(ReportEventPage));
    expect(fieldsOf('GET /v1/reports', 200)).toEqual(named(ReportPage));
    expect(fieldsOf('POST /v1/ingest/uploads', 201)).toEqual(named(Upload));
    expect(fieldsOf('PUT /v1/uploads/{id}', 200)).toEqual(named(UploadStored));
    expect(fieldsOf('GET /v1/quota', 200)).toEqual(named(Quota));
    expect(fieldsOf('POST /v1/ingest/events', 404)).toEqual(named(Problem));
  });
});

describe('the schemas of a request', () => {
  test.each([
    ['EventInputA', { sessionId: randomUUID(), eventType: '', payload: { any: [1] } }, true],
    ['EventInputA', { eventType: 'x' }, false],
    ['EventInputB', { eventType: 'x' }, true],
    ['EventInputB', { eventType: 7 }, false],
    ['EventInputB', { eventType: 'x', sequence: 5.0 }, true],
    ['EventInputB', { eventType: 'x', sequence: 0 }, false],
    ['EventInputB', { eventType: 'x', buildId: 'x' }, false],
    ['ReportInput', { eventIds: [randomUUID()], window: { beforeMs: 0 } }, true],
    ['ReportInput', { window: { beforeMs: 86_400_001 } }, false],
    ['SessionInput', {}, true],
    ['SessionInput', { id: 'x' }, false],
    ['SessionInput', { build: { version: '1', platform: 'Web', channel: 'dev' } }, true],
    ['SessionInput', { build: { version: '1' } }, false],
  ])('%s says of %j what the product says: %s', async (name, value, isTaken) => {
    expect(errorsOf({ $ref: `#/components/schemas/${name}` }, value).length === 0).toBe(isTaken);
  });

  test('has the batch limits of both revisions', () => {
    const text = JSON.stringify(document.paths['/v1/ingest/events']);

    expect(text).toContain('"maxItems":500');
    expect(text).toContain('"maxItems":200');
  });
});

/** Sends a request for each status of each operation, and returns the answers. */
async function everyAnswer(): Promise<typeof seen> {
  const game = await shared.aProject({ revision: 'A' });
  const none = await aToken(shared.product, game.projectId, { scopes: ['reports:write'] });
  const found: typeof seen = [];
  const ask = async (
    method: string,
    path: string,
    template: string,
    body?: unknown,
    headers = {},
  ): Promise<Answer> => {
    const answer = await game.request(method, path, { headers, ...(body === undefined ? {} : { body }) });
    found.push({ operation: `${method} ${template}`, status: answer.status, answer });
    return answer;
  };
  const refused = async (method: string, path: string, template: string, other = none): Promise<void> => {
    await ask(method, path, template, undefined, { Authorization: 'Bearer nobody' });
    await ask(method, path, template, undefined, { Authorization: `Bearer ${other.token}` });
  };

  const ingest = '/v1/ingest/events';
  const key = { 'Idempotency-Key': aKey() };
  const event = anEvent({ sessionId: game.sessionId, sequence: 1, payload: { a: [1, null] } });
  const [created] = (await ask('POST', ingest, ingest, event, key)).json();
  await ask('POST', ingest, ingest, event, key);
  await ask('POST', ingest, ingest, [event], key);
  await ask('POST', ingest, ingest, event, { ...key, Prefer: 'handling=lenient' });
  await ask('POST', ingest, ingest, [event, anEvent()], { Prefer: 'handling=lenient' });
  await ask('POST', ingest, ingest, [anEvent()]);
  await ask('POST', ingest, ingest, anEvent({ sessionId: randomUUID() }));
  await ask('POST', ingest, ingest, events(501));
  await ask('POST', ingest, ingest, event, { 'Content-Encoding': 'lz4' });
  await refused('POST', ingest, ingest);

  const sessions = '/v1/ingest/sessions';
  const id = randomUUID();
  await ask('POST', sessions, sessions, { id, startedAt: '2014-01-01T00:00:00Z' });
  await ask('POST', sessions, sessions, { id, startedAt: '2014-01-01T00:00:00Z' });
  await ask('POST', sessions, sessions, { id, buildId: randomUUID() });
  await ask('POST', sessions, sessions, { id: 7 });
  const build = { version: '1.4.2', platform: 'Web' };
  await ask('POST', sessions, sessions, { build, player: { externalId: 'player' }, metadata: { any: 1 } });
  await ask('POST', sessions, sessions, { x: 'x'.repeat(1024 * 1024) });
  await ask('POST', sessions, sessions, 'x', { 'Content-Type': 'text/plain' });
  await refused('POST', sessions, sessions);

  const reports = '/v1/ingest/reports';
  const reader = await aToken(shared.product, game.projectId, { scopes: ['read'] });
  const occurredAt = '2014-01-01T00:00:00Z';
  const report = { id: randomUUID(), sessionId: game.sessionId, occurredAt, events: [event] };
  await ask('POST', reports, reports, report);
  await ask('POST', reports, reports, report);
  await ask('POST', reports, reports, { ...report, eventIds: [randomUUID()] });
  await ask('POST', reports, reports, {});
  await ask('POST', reports, reports, { sessionId: randomUUID() });
  await ask('POST', reports, reports, { events: events(501, { sessionId: game.sessionId }) });
  await ask('POST', reports, reports, 'x', { 'Content-Type': 'text/plain' });
  await refused('POST', reports, reports, reader);

  for (const [template, path] of [
    ['/v1/reports/{id}', `/v1/reports/${report.id}`],
    ['/v1/reports/{id}/events', `/v1/reports/${report.id}/events`],
    ['/v1/events/{id}', `/v1/events/${created.id}`],
    ['/v1/sessions/{id}', `/v1/sessions/${game.sessionId}`],
    ['/v1/sessions/{id}/events', `/v1/sessions/${game.sessionId}/events`],
  ] as const) {
    await ask('GET', path, template);
    await ask('GET', template.replace('{id}', randomUUID()), template);
    await refused('GET', path, template);
  }
  await ask('GET', `/v1/reports/${report.id}/events?limit=x`, '/v1/reports/{id}/events');
  await refused('DELETE', `/v1/reports/${report.id}`, '/v1/reports/{id}', reader);
  await ask('DELETE', `/v1/reports/${report.id}`, '/v1/reports/{id}');
  await ask('DELETE', `/v1/reports/${randomUUID()}`, '/v1/reports/{id}');
  await ask('GET', `/v1/sessions/${game.sessionId}/events?limit=1`, '/v1/sessions/{id}/events');
  await ask('GET', `/v1/sessions/${game.sessionId}/events?limit=x`, '/v1/sessions/{id}/events');

  const uploads = '/v1/ingest/uploads';
  const file = { attachmentType: 'screenshot', fileName: 'a.png', mimeType: 'image/png', sizeBytes: 3 };
  const upload = (await ask('POST', uploads, uploads, file)).json();
  await ask('POST', uploads, uploads, {});
  await ask('POST', uploads, uploads, { ...file, sizeBytes: 1e9 });
  await ask('POST', uploads, uploads, { ...file, mimeType: 'image/svg+xml' });
  await refused('POST', uploads, uploads, reader);
  const address = upload.uploadUrl.slice(shared.product.credentials.baseUrl.length);
  const put = (path: string, bytes: string, type = 'image/png') =>
    ask('PUT', path, '/v1/uploads/{id}', bytes, { 'Content-Type': type });
  await put(address, '12');
  await put(address, '1234');
  await put(address, '123', 'image/webp');
  await put(`${address}0`, '123');
  await put(address, '123');
  await put(address, '321');
  await ask('GET', `/v1/uploads/${upload.uploadId}`, '/v1/uploads/{id}');
  await ask('GET', `/v1/uploads/${randomUUID()}`, '/v1/uploads/{id}');
  await refused('GET', `/v1/uploads/${upload.uploadId}`, '/v1/uploads/{id}');

  for (const [template, path] of [
    ['/v1/events', '/v1/events'],
    ['/v1/reports', '/v1/reports'],
    ['/v1/builds', '/v1/builds'],
    ['/v1/players/{externalId}/sessions', '/v1/players/player/sessions'],
  ] as const) {
    await ask('GET', path, template);
    await ask('GET', `${path}?limit=0`, template);
    await refused('GET', path, template);
  }
  const { projectId, token } = await shared.aProject({ revision: 'A' });
  const limits = { bytesPerSecond: 1, burstSeconds: 1 };
  await shared.product.admin('PATCH', `/admin/projects/${projectId}`, { limits });
  const asLimited = { Authorization: `Bearer ${token}` };
  // This request is accepted. It uses up the limit for the next minutes.
  await ask('POST', sessions, sessions, { metadata: { x: 'x'.repeat(600) } }, asLimited);
  for (const path of [ingest, sessions, reports, uploads]) await ask('POST', path, path, {}, asLimited);
  await ask('DELETE', `/v1/reports/${report.id}`, '/v1/reports/{id}', undefined, asLimited);
  const slow = await shared.aProject({ revision: 'A' });
  const eventLimits = { eventsPerSecond: 1, burstSeconds: 1 };
  await shared.product.admin('PATCH', `/admin/projects/${slow.projectId}`, { limits: eventLimits });
  const asSlow = { Authorization: `Bearer ${slow.token}`, Prefer: 'handling=lenient' };
  const batch = events(100, { sessionId: slow.sessionId });
  // The first request is accepted. The second request exceeds the limit.
  await ask('POST', ingest, ingest, batch, asSlow);
  await ask('POST', ingest, ingest, batch, asSlow);
  await ask('GET', '/v1/quota', '/v1/quota');
  await refused('GET', '/v1/quota', '/v1/quota');
  await ask('GET', '/health', '/health');
  await ask('GET', '/openapi.json', '/openapi.json');
  return found;
}

function operationsOf({ paths }: Document): string[] {
  return Object.entries(paths)
    .flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
    )
    .toSorted();
}

function responsesOf(operation: string): Operation['responses'] {
  const [method = '', path = ''] = operation.split(' ');
  return document.paths[path]?.[method.toLowerCase()]?.responses ?? {};
}

/** Returns the errors of a value according to a schema. References are resolved within the document. */
function errorsOf(schema: object, value: unknown): unknown[] {
  const [isValid, errors] = Compile({ ...schema, components: document.components }).Errors(value);
  return isValid ? [] : errors;
}
