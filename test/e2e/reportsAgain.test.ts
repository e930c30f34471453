/** Tests which requests count as the same report, and which tokens can read and retract a report. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { anUnknownId, aToken, events, eventually, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe.concurrent('a repeated report', () => {
  test('returns a 200 with the stored report, and stores nothing twice', async () => {
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

  test('is another report without an id', async () => {
    const body = { sessionId: game.sessionId };
    const [first, second] = [await game.report(body), await game.report(body)];

    expect([first.status, second.status]).toEqual([201, 201]);
    expect(first.json().id).not.toBe(second.json().id);
  });

  test('returns a 409 for other content, and stores nothing', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const id = randomUUID();
    expect((await own.report({ id, sessionId: own.sessionId })).status).toBe(201);
    const other = await own.report({ id, events: events(2, { sessionId: own.sessionId }) });

    expect([other.status, other.json().code]).toEqual([409, 'conflict']);
    expect((await own.get('/v1/quota')).json().used).toBe(0);
  });

  test('is created once by concurrent requests, and every response has the same events', async () => {
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

  test('is created once by concurrent requests with two contents; the other content gets a 409', async () => {
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
  test('can be read immediately, with its links', async () => {
    const eventId = anUnknownId();
    const created = (await game.report({ sessionId: game.sessionId, eventIds: [eventId] })).json();
    const { events: _, ...report } = created;
    const answer = await game.get(`/v1/reports/${created.id.toUpperCase()}`);

    expect(answer.status).toBe(200);
    expect(answer.json()).toMatchObject(report);
    expect((await game.get(`/v1/reports/${created.id}/events`)).status).toBe(200);
  });

  test('is retracted permanently by DELETE, and stays readable', async () => {
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
  test('of another project gets the same 404 as an unknown report', async () => {
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

  test('needs the scope reports:write for writes and read for reads', async () => {
    const { id } = (await game.report({ sessionId: game.sessionId })).json();
    const writer = await aToken(shared.product, game.projectId, { scopes: ['reports:write'] });
    const reader = await aToken(shared.product, game.projectId, { scopes: ['read', 'events:write'] });
    const ask = async (token: string, method: string, path: string): Promise<number> => {
      const body = method === 'POST' ? { body: { sessionId: game.sessionId } } : {};
      const headers = { Authorization: `Bearer ${token}` };
      const at = method === 'POST' ? '/v1/ingest/reports' : `/v1/reports${path}`;
      return (await game.request(method, at, { ...body, headers })).status;
    };

    expect(await ask(writer.token, 'POST', '')).toBe(201);
    expect(await ask(reader.token, 'POST', '')).toBe(403);
    expect(await ask('nobody', 'POST', '')).toBe(401);
    expect(await ask(writer.token, 'GET', `/${id}`)).toBe(403);
    expect(await ask(writer.token, 'GET', `/${id}/events`)).toBe(403);
    expect(await ask(reader.token, 'GET', `/${id}`)).toBe(200);
    expect(await ask(reader.token, 'DELETE', `/${id}`)).toBe(403);
    expect(await ask('nobody', 'DELETE', `/${id}`)).toBe(401);
    expect(await ask(game.token, 'DELETE', `/${id}`)).toBe(204);
  });

  test('can be retracted only with the token that filed it, or by an operator', async () => {
    const [own, other] = await Promise.all([
      aToken(shared.product, game.projectId),
      aToken(shared.product, game.projectId),
    ]);
    const as = ({ token }: { token: string }) => ({ headers: { Authorization: `Bearer ${token}` } });
    const filed = async (): Promise<string> =>
      (await game.report({ sessionId: game.sessionId }, as(own).headers)).json().id;
    const ids = [await filed(), await filed()];
    const refused = await game.request('DELETE', `/v1/reports/${ids[0]}`, as(other));
    const operators = `/admin/projects/${game.projectId}/reports/${ids[1]}`;
    const foreign = `/admin/projects/${anUnknownId()}/reports/${ids[1]}`;

    expect([refused.status, refused.json().code]).toEqual([403, 'forbidden']);
    expect((await game.get(`/v1/reports/${ids[0]}`)).json().state).toBe('filed');
    expect((await game.request('DELETE', `/v1/reports/${ids[0]}`, as(own))).status).toBe(204);
    expect((await shared.product.admin('DELETE', foreign)).status).toBe(404);
    expect((await shared.product.admin('DELETE', operators)).status).toBe(204);
    for (const id of ids) expect((await game.get(`/v1/reports/${id}`)).json().state).toBe('retracted');
  });
});
