/** POST /v1/reports and what comes back of a report: what is created, what is the same report, whose it is. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, aToken, events, eventually, rawEvent, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const PAYLOAD = '{ "a":1e400, "a":-0, "é":"\\ud800", "big":12345678901234567890 }';

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe.concurrent('a new report', () => {
  test('is a 201 that shows all of it, with an id and the times of the server where none were given', async () => {
    const before = Date.now();
    const sessionId = await game.session();
    const answer = await game.report({ sessionId });

    expect(answer.status).toBe(201);
    const report = answer.json();
    expect(answer.headers.get('location')).toBe(`/v1/reports/${report.id}`);
    expect(answer.headers.get('idempotency-replayed')).toBeNull();
    expect(report).toEqual({
      id: expect.stringMatching(UUID_V7),
      sessionId,
      occurredAt: report.receivedAt,
      receivedAt: expect.stringMatching(/Z$/),
      window: { beforeMs: 600_000, afterMs: 60_000 },
      state: 'filed',
      events: [],
      links: [],
    });
    expect(Date.parse(report.receivedAt)).toBeGreaterThanOrEqual(before - 1);
  });

  test('has the id, the time to the microsecond and the window that were given', async () => {
    const id = randomUUID();
    const answer = await game.report({
      id: id.toUpperCase(),
      sessionId: game.sessionId.toUpperCase(),
      occurredAt: '2026-11-21T19:30:00.123456+01:00',
      window: { beforeMs: 0, afterMs: 86_400_000 },
    });

    expect(answer.status).toBe(201);
    expect(answer.json()).toMatchObject({
      id,
      sessionId: game.sessionId,
      occurredAt: '2026-11-21T18:30:00.123456Z',
      window: { beforeMs: 0, afterMs: 86_400_000 },
    });
  });

  test('takes an omitted half of the window, and null anywhere, from the defaults', async () => {
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

  test('has the window of its project where it has none of its own', async () => {
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

  test('stores its inline events with every byte of their payloads', async () => {
    const event = rawEvent(PAYLOAD, { sessionId: game.sessionId, occurredAt: '2026-11-21T18:30:00Z' });
    const body = Buffer.concat([Buffer.from('{"x":[{}],"events":[ '), event, Buffer.from(' ]}')]);
    const answer = await game.report(body);

    expect(answer.status).toBe(201);
    expect(answer.bytes.includes(Buffer.from(`"payload":${PAYLOAD},`))).toBe(true);
    const { id, events: created, links } = answer.json();
    expect(created).toHaveLength(1);
    expect(created[0]).toMatchObject({
      id: expect.stringMatching(UUID_V7),
      sessionId: game.sessionId,
      occurredAt: '2026-11-21T18:30:00.000Z',
      reportIds: [id],
      overQuota: false,
    });
    expect(links).toEqual([{ eventId: created[0].id, state: 'pending', source: 'inline' }]);
    const read = await game.get(`/v1/events/${created[0].id}`);
    expect(read.status).toBe(200);
    expect(read.bytes.includes(Buffer.from(`"payload":${PAYLOAD},`))).toBe(true);
  });

  test('names events that are stored, are still to come, or are named twice, each as one link', async () => {
    const [stored] = (await game.post(anEvent({ sessionId: game.sessionId }))).json();
    const other = anUnknownId();
    const answer = await game.report({ eventIds: [stored.id, other.toUpperCase(), other], sessionId: null });

    expect(answer.status).toBe(201);
    expect(answer.json()).toMatchObject({
      sessionId: null,
      links: [
        { eventId: stored.id, state: 'pending', source: 'named' },
        { eventId: other, state: 'pending', source: 'named' },
      ],
    });
  });

  test('takes unknown fields and ignores them', async () => {
    const answer = await game.report({ sessionId: game.sessionId, severity: 'high', Window: 7 });

    expect(answer.status).toBe(201);
  });

  test.each(['gzip', 'deflate', 'br', 'zstd'] as const)('may come as %s', async (coding) => {
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

  test('counts its inline events in the quota and flags those past the line', async () => {
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

  test('needs no session for its events in revision B, which shows no overQuota', async () => {
    const loose = await shared.aProject({ revision: 'B', spread: 8 });
    const answer = await loose.report({ events: events(200) });

    expect(answer.status).toBe(201);
    expect(answer.json().events).toHaveLength(200);
    expect(answer.json().events[0]).not.toHaveProperty('overQuota');
    expect((await loose.get(`/v1/events/${answer.json().events[199].id}`)).status).toBe(200);
  });
});

describe.concurrent('the same report again', () => {
  test('is a 200 with what was stored, and stores nothing twice', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const body = {
      id: randomUUID(),
      events: events(3, { sessionId: own.sessionId }),
      eventIds: [anUnknownId()],
    };
    const first = await own.report(body);
    const again = await own.report(body);

    expect([first.status, again.status]).toEqual([201, 200]);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(again.headers.get('location')).toBe(`/v1/reports/${body.id}`);
    const { links: _, ...created } = first.json();
    expect(again.json()).toMatchObject(created);
    expect((await own.get('/v1/quota')).json().used).toBe(3);
    const page = await own.get(`/v1/sessions/${own.sessionId}/events`);
    expect(page.json().events).toHaveLength(3);
  });

  test('is another report where no id was given', async () => {
    const body = { sessionId: game.sessionId };
    const [first, second] = [await game.report(body), await game.report(body)];

    expect([first.status, second.status]).toEqual([201, 201]);
    expect(first.json().id).not.toBe(second.json().id);
  });

  test('with other content is a 409 that stores nothing', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const id = randomUUID();
    expect((await own.report({ id, sessionId: own.sessionId })).status).toBe(201);
    const other = await own.report({ id, events: events(2, { sessionId: own.sessionId }) });

    expect([other.status, other.json().code]).toEqual([409, 'conflict']);
    expect((await own.get('/v1/quota')).json().used).toBe(0);
  });

  test('sent many times at once is created once, and every answer tells of the same events', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const body = { id: randomUUID(), events: events(5, { sessionId: own.sessionId }) };
    const answers = await Promise.all(Array.from({ length: 8 }, () => own.report(body)));

    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 200, 200, 200, 200, 200, 200, 201]);
    const ids = answers.map((answer) => answer.json().events.map(({ id }: { id: string }) => id));
    expect(new Set(ids.map(String)).size).toBe(1);
    expect((await own.get('/v1/quota')).json().used).toBe(5);
    const page = await own.get(`/v1/sessions/${own.sessionId}/events`);
    expect(page.json().events).toHaveLength(5);
  });

  test('with two contents at once: one is created, the other is a 409', async () => {
    const id = randomUUID();
    const bodies = [10, 20].map((beforeMs) => ({ id, sessionId: game.sessionId, window: { beforeMs } }));
    const answers = await Promise.all(bodies.map((body) => game.report(body)));

    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409]);
    const winner = bodies[answers.findIndex(({ status }) => status === 201)];
    expect((await game.report(winner)).status).toBe(200);
  });

  test('in another project is another report', async () => {
    const other = await shared.aProject({ tenantId: game.tenantId });
    const id = randomUUID();

    expect((await game.report({ id, sessionId: game.sessionId })).status).toBe(201);
    expect((await other.report({ id, sessionId: other.sessionId })).status).toBe(201);
  });
});

describe.concurrent('a report that was filed', () => {
  test('can be read at once, with its links', async () => {
    const eventId = anUnknownId();
    const created = (await game.report({ sessionId: game.sessionId, eventIds: [eventId] })).json();
    const { events: _, ...report } = created;
    const answer = await game.get(`/v1/reports/${created.id.toUpperCase()}`);

    expect(answer.status).toBe(200);
    expect(answer.json()).toMatchObject(report);
    expect((await game.get(`/v1/reports/${created.id}/events`)).status).toBe(200);
  });

  test('is retracted by DELETE, once and for all, and stays readable', async () => {
    const body = { id: randomUUID(), sessionId: await game.session(), eventIds: [anUnknownId()] };
    await game.report(body);
    const path = `/v1/reports/${body.id}`;
    expect((await game.request('DELETE', path)).status).toBe(204);
    expect((await game.request('DELETE', path)).status).toBe(204);

    const read = (await game.get(path)).json();
    expect(read).toMatchObject({ state: 'retracted', sessionId: body.sessionId });
    expect(read.links).toEqual([{ eventId: body.eventIds[0], state: 'retracted', source: 'named' }]);
    const again = await game.report(body);
    expect([again.status, again.json().state]).toEqual([200, 'retracted']);
    const rows = await eventually(
      () => shared.product.sql(`SELECT retracted_at FROM reports WHERE id = '${body.id}'`),
      ([row]) => row !== undefined && row['retracted_at'] !== null,
    );
    expect(rows).toHaveLength(1);
  });
});

describe.concurrent('a report', () => {
  test('of another project is a 404 exactly as one that is not there', async () => {
    const other = await shared.aProject({ tenantId: game.tenantId });
    const { id } = (await other.report({ sessionId: other.sessionId })).json();
    const operations = [
      ['GET', ''],
      ['GET', '/events'],
      ['DELETE', ''],
    ] as const;
    for (const [method, path] of operations) {
      const foreign = await game.request(method, `/v1/reports/${id}${path}`);
      const unknown = await game.request(method, `/v1/reports/${anUnknownId()}${path}`);
      const noUuid = await game.request(method, `/v1/reports/x${path}`);
      expect([foreign.status, foreign.json().code]).toEqual([404, 'not_found']);
      expect([unknown.status, unknown.json().code]).toEqual([404, 'not_found']);
      expect(noUuid.status).toBe(404);
    }
    expect((await other.get(`/v1/reports/${id}`)).json().state).toBe('filed');
  });

  test('is written with the scope reports:write and read with the scope read', async () => {
    const { id } = (await game.report({ sessionId: game.sessionId })).json();
    const writer = await aToken(shared.product, game.projectId, { scopes: ['reports:write'] });
    const reader = await aToken(shared.product, game.projectId, { scopes: ['read', 'events:write'] });
    const ask = async (token: string, method: string, path: string): Promise<number> => {
      const body = method === 'POST' ? { body: { sessionId: game.sessionId } } : {};
      const headers = { Authorization: `Bearer ${token}` };
      return (await game.request(method, `/v1/reports${path}`, { ...body, headers })).status;
    };

    expect(await ask(writer.token, 'POST', '')).toBe(201);
    expect(await ask(reader.token, 'POST', '')).toBe(403);
    expect(await ask('nobody', 'POST', '')).toBe(401);
    expect(await ask(writer.token, 'GET', `/${id}`)).toBe(403);
    expect(await ask(writer.token, 'GET', `/${id}/events`)).toBe(403);
    expect(await ask(reader.token, 'GET', `/${id}`)).toBe(200);
    expect(await ask(reader.token, 'DELETE', `/${id}`)).toBe(403);
    expect(await ask('nobody', 'DELETE', `/${id}`)).toBe(401);
    expect(await ask(writer.token, 'DELETE', `/${id}`)).toBe(204);
  });
});
