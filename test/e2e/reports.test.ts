/** Tests POST /v1/ingest/reports: the created report, its default values, and the events in its body. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, events, rawEvent, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const PAYLOAD = '{ "a":1e400, "a":-0, "é":"\\ud800", "big":12345678901234567890 }';

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe.concurrent('a new report', () => {
  test('returns a 201 with all fields, and with an id and times of the server if none were sent', async () => {
    const before = Date.now();
    const sessionId = await game.session();
    const answer = await game.report({ sessionId });

    expect(answer.status).toBe(201);
    const report = answer.json();
    expect(answer.headers.get('location')).toBe(`/v1/reports/${report.id}`);
    expect(answer.headers.get('idempotency-replayed')).toBeNull();
    expect(report).toEqual({
      id: expect.stringMatching(UUID_V7),
      reportId: report.id,
      status: 'filed',
      sessionId,
      buildId: null,
      occurredAt: report.receivedAt,
      receivedAt: expect.stringMatching(/Z$/),
      window: { beforeMs: 600_000, afterMs: 60_000 },
      state: 'filed',
      events: [],
      links: [],
      linksTruncated: false,
      truncated: false,
    });
    expect(Date.parse(report.receivedAt)).toBeGreaterThanOrEqual(before - 1);
  });

  test('keeps the sent id, time with microseconds, and window', async () => {
    const id = randomUUID();
    const answer = await game.report({
      id: id.toUpperCase(),
      sessionId: game.sessionId.toUpperCase(),
      occurredAt: '2020-01-01T19:30:00.123456+01:00',
      window: { beforeMs: 0, afterMs: 86_400_000 },
    });

    expect(answer.status).toBe(201);
    expect(answer.json()).toMatchObject({
      id,
      sessionId: game.sessionId,
      occurredAt: '2020-01-01T18:30:00.123456Z',
      window: { beforeMs: 0, afterMs: 86_400_000 },
    });
  });

  test('uses defaults for omitted parts of the window and for null', async () => {
    const { sessionId } = game;
    const half = await game.report({ sessionId, window: { beforeMs: 5 } });
    const nulls = await game.report({
      id: null,
      sessionId,
      occurredAt: null,
      events: null,
      eventIds: null,
      window: { beforeMs: null, afterMs: 7 },
    });

    expect(half.json().window).toEqual({ beforeMs: 5, afterMs: 60_000 });
    expect(nulls.json()).toMatchObject({ window: { beforeMs: 600_000, afterMs: 7 }, events: [], links: [] });
  });

  test('uses the window of its project by default', async () => {
    const own = await shared.aProject();
    const patched = await shared.product.admin('PATCH', `/admin/projects/${own.projectId}`, {
      reportWindow: { afterMs: 2, beforeMs: 1 },
    });
    expect([patched.status, patched.json().reportWindow]).toEqual([200, { beforeMs: 1, afterMs: 2 }]);
    expect((await own.report({ sessionId: own.sessionId })).json().window).toEqual({
      beforeMs: 1,
      afterMs: 2,
    });

    await shared.product.admin('PATCH', `/admin/projects/${own.projectId}`, { name: 'renamed' });
    const half = await own.report({ sessionId: own.sessionId, window: { afterMs: 3 } });
    expect(half.json().window).toEqual({ beforeMs: 1, afterMs: 3 });

    await shared.product.admin('PATCH', `/admin/projects/${own.projectId}`, { reportWindow: null });
    expect((await own.report({ sessionId: own.sessionId })).json().window).toEqual({
      beforeMs: 600_000,
      afterMs: 60_000,
    });
  });

  test('stores inline events with their payload bytes', async () => {
    const event = rawEvent(PAYLOAD, { sessionId: game.sessionId, occurredAt: '2020-02-02T18:30:00Z' });
    const body = Buffer.concat([Buffer.from('{"x":[{}],"events":[ '), event, Buffer.from(' ]}')]);
    const answer = await game.report(body);

    expect(answer.status).toBe(201);
    expect(answer.bytes.includes(Buffer.from(`"payload":${PAYLOAD},`))).toBe(true);
    const { id, events: created, links } = answer.json();
    expect(created).toHaveLength(1);
    expect(created[0]).toMatchObject({
      id: expect.stringMatching(UUID_V7),
      sessionId: game.sessionId,
      occurredAt: '2020-02-02T18:30:00.000Z',
      reportIds: [id],
      overQuota: false,
    });
    expect(links).toEqual([{ eventId: created[0].id, state: 'pending', source: 'inline' }]);
    const read = await game.get(`/v1/events/${created[0].id}`);
    expect(read.status).toBe(200);
    expect(read.bytes.includes(Buffer.from(`"payload":${PAYLOAD},`))).toBe(true);
  });

  test('has one link per named event, also for future and repeated ids', async () => {
    const [stored] = (await game.post(anEvent({ sessionId: game.sessionId }))).json();
    const other = anUnknownId();
    const answer = await game.report({ eventIds: [stored.id, other.toUpperCase(), other], sessionId: null });

    expect(answer.status).toBe(201);
    expect(answer.json()).toMatchObject({
      sessionId: null,
      links: [stored.id, other].toSorted().map((eventId) => ({ eventId, state: 'pending', source: 'named' })),
    });
  });

  test('ignores unknown fields', async () => {
    const answer = await game.report({ sessionId: game.sessionId, severity: 'high', Window: 7 });

    expect(answer.status).toBe(201);
  });

  test.each(['gzip', 'deflate', 'br', 'zstd'] as const)('accepts the coding %s', async (coding) => {
    const zlib = await import('node:zlib');
    const text = JSON.stringify({ sessionId: game.sessionId });
    const packed = {
      gzip: zlib.gzipSync,
      deflate: zlib.deflateSync,
      br: zlib.brotliCompressSync,
      zstd: zlib.zstdCompressSync,
    };
    const answer = await game.report(packed[coding](text), {
      'Content-Encoding': coding,
      'Content-Type': 'application/json',
    });

    expect(answer.status).toBe(201);
  });

  test('counts inline events in the quota, and flags events above it', async () => {
    const small = await shared.aProject({ revision: 'A', monthlySoftQuota: 3 });
    await small.post(anEvent({ sessionId: small.sessionId }));
    const answer = await small.report({ events: events(4, { sessionId: small.sessionId }) });

    expect(answer.json().events.map(({ overQuota }: { overQuota: boolean }) => overQuota)).toEqual([
      false,
      false,
      true,
      true,
    ]);
    expect((await small.get('/v1/quota')).json().used).toBe(5);
  });

  test('needs no session for its events in revision B, which has no overQuota', async () => {
    const loose = await shared.aProject({ revision: 'B', spread: 8 });
    const answer = await loose.report({ events: events(200) });

    expect(answer.status).toBe(201);
    expect(answer.json().events).toHaveLength(200);
    expect(answer.json().events[0]).not.toHaveProperty('overQuota');
    expect((await loose.get(`/v1/events/${answer.json().events[199].id}`)).status).toBe(200);
  });
});
