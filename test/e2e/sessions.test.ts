/** Tests sessions. A session is registered once and can be read at once, and its events are returned in pages by time. */
import { isUuidV7 } from '@questlog/schemas/uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, eventually, type TestProject } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe.concurrent('POST /v1/ingest/sessions', () => {
  test('returns a 201 with the sent session', async () => {
    const given = { id: anUnknownId(), buildId: anUnknownId(), startedAt: '2026-11-21T18:30:00+02:00' };
    const answer = await register(given);

    expect(answer.status).toBe(201);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(answer.json()).toEqual({
      ...given,
      sessionId: given.id,
      startedAt: '2026-11-21T16:30:00.000Z',
    });
  });

  test('creates an id and uses the server’s time by default', async () => {
    const before = Date.now();
    const [one, other] = [await register({}), await register({ id: null, buildId: null, startedAt: null })];

    for (const answer of [one, other]) {
      expect(answer.status).toBe(201);
      const { id, buildId, startedAt } = answer.json();
      expect(isUuidV7(id)).toBe(true);
      expect(buildId).toBeNull();
      expect(Date.parse(startedAt)).toBeGreaterThanOrEqual(before);
      expect(Date.parse(startedAt)).toBeLessThanOrEqual(Date.now());
    }
    expect(one.json().id).not.toBe(other.json().id);
  });

  test('returns a 200 with the same session for a retry, before and after the projection', async () => {
    const given = { id: anUnknownId(), buildId: anUnknownId(), startedAt: '2026-11-21T18:30:00Z' };
    const first = await register(given);
    expectSame(await register(given), first);
    expectSame(
      await register({ ...given, id: given.id.toUpperCase(), startedAt: '2026-11-21T19:30+01:00' }),
      first,
    );
    const rows = await projected(given.id);

    expect(rows).toHaveLength(1);
    expectSame(await register(given), first);
  });

  test('returns the first startedAt for a retry without a startedAt', async () => {
    const id = anUnknownId();
    const first = await register({ id });

    expectSame(await register({ id }), first);
    expectSame(await register({ id, startedAt: null }), first);
  });

  test('rejects other content of the id with a 409', async () => {
    const given = { id: anUnknownId(), buildId: anUnknownId(), startedAt: '2026-11-21T18:30:00Z' };
    const first = await register(given);
    for (const other of [
      { buildId: anUnknownId() },
      { buildId: null },
      { startedAt: '2026-11-21T18:30:00.000001Z' },
    ]) {
      const answer = await register({ ...given, ...other });
      expect(answer.status).toBe(409);
      expect(answer.json().code).toBe('conflict');
    }

    await expectStored(first);
  });

  test('the same id in another project is another session', async () => {
    const other = await shared.aProject({ revision: 'A', tenantId: game.tenantId });
    const id = anUnknownId();
    const mine = await register({ id, buildId: anUnknownId() });
    const theirs = await other.request('POST', '/v1/ingest/sessions', { body: { id } });

    expect(theirs.status).toBe(201);
    expect((await other.get(`/v1/sessions/${id}`)).json().buildId).toBeNull();
    await expectStored(mine);
  });
});

describe.concurrent('concurrent registrations of one id', () => {
  test('with the same content get one 201, 200s, and the same session', async () => {
    const id = anUnknownId();
    const answers = await Promise.all(Array.from({ length: 16 }, () => register({ id })));

    expect(answers.map(({ status }) => status).sort()).toEqual([
      ...Array.from({ length: 15 }, () => 200),
      201,
    ]);
    expect(new Set(answers.map((answer) => answer.text())).size).toBe(1);
    await expectStored(answers[0]);
  });

  test('with different content get one 201 and 409s: the first in the log wins', async () => {
    const id = anUnknownId();
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => register({ id, buildId: anUnknownId() })),
    );

    const [winner, ...others] = answers.toSorted((a, b) => a.status - b.status);
    expect(winner?.status).toBe(201);
    expect(others.map(({ status }) => status)).toEqual(Array.from({ length: 15 }, () => 409));
    await expectStored(winner);
    expect(await projected(id)).toEqual([{ build_id: winner?.json().buildId }]);
  });
});

describe.concurrent('a session', () => {
  test('can be named by an event immediately after the 201', async () => {
    const statuses = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const sessionId = await game.session();
        return (await game.post(anEvent({ sessionId }))).status;
      }),
    );

    expect(new Set(statuses)).toEqual(new Set([201]));
  });

  test('is returned by GET as registered, for an id in any case', async () => {
    const registered = await register({ buildId: anUnknownId() });
    const { id } = registered.json();

    const answer = await game.get(`/v1/sessions/${id.toUpperCase()}`);
    expect(answer.status).toBe(200);
    expect(answer.json()).toMatchObject(registered.json());
  });

  test.each(['', '/events'])('that does not exist gets a 404: /v1/sessions/{id}%s', async (suffix) => {
    for (const id of [anUnknownId(), 'not-a-uuid', '%00', '%E0%A4%A']) {
      const answer = await game.get(`/v1/sessions/${id}${suffix}`);
      expect([id, answer.status]).toEqual([id, 404]);
      expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
    }
  });
});

describe.concurrent('an invalid registration', () => {
  test.each([
    ['an id that is no UUID', { id: 'mine' }, '/id', 'invalid_uuid'],
    ['an id of another type', { id: 7 }, '/id', 'field_type'],
    ['a buildId that is no UUID', { buildId: 'mine' }, '/buildId', 'invalid_uuid'],
    ['a startedAt that is no timestamp', { startedAt: 'today' }, '/startedAt', 'invalid_timestamp'],
    ['a startedAt out of range', { startedAt: '1899-01-01' }, '/startedAt', 'timestamp_out_of_range'],
    ['a startedAt of another type', { startedAt: 0 }, '/startedAt', 'field_type'],
  ])('is a 400 that names the field: %s', async (_, body, pointer, code) => {
    const answer = await register(body);

    expect(answer.status).toBe(400);
    expect(answer.json().errors).toEqual([{ index: 0, pointer, code, detail: expect.any(String) }]);
  });

  test('lists all invalid fields', async () => {
    const answer = await register({ id: 'x', buildId: 7, startedAt: [] });

    const pointers: string[] = answer.json().errors.map(({ pointer }: { pointer: string }) => pointer);
    expect(pointers.toSorted()).toEqual(['/buildId', '/id', '/startedAt']);
  });

  test.each([['[]'], ['7'], ['null'], ['"x"'], ['{'], [''], ['{"id":']])(
    'gets a 400 if it is not an object: %j',
    async (body) => {
      expect((await register(body)).status).toBe(400);
    },
  );

  test('gets a 415 for another media type, and a 413 above 1 MiB', async () => {
    const asText = await game.request('POST', '/v1/ingest/sessions', {
      body: '{}',
      headers: { 'Content-Type': 'text/plain' },
    });
    const large = await register({ x: 'x'.repeat(1024 * 1024) });

    expect(asText.status).toBe(415);
    expect(large.status).toBe(413);
  });
});

function register(body: unknown): Promise<Answer> {
  return game.request('POST', '/v1/ingest/sessions', { body });
}

function expectSame(again: Answer, first: Answer): void {
  expect(again.status).toBe(200);
  expect(again.text()).toBe(first.text());
}

/** Expects that GET returns the session from the response to the registration. */
async function expectStored(registered: Answer | undefined): Promise<void> {
  const answer = await game.get(`/v1/sessions/${registered?.json().id}`);
  expect(answer.json()).toMatchObject(registered?.json());
}

/** Returns the rows of the session in ClickHouse. Waits until all earlier registrations are projected. */
async function projected(id: string): Promise<object[]> {
  const marker = await game.session();
  const rows = await eventually(
    () =>
      shared.product.sql<{ id: string; build_id: string | null }>(
        `SELECT id, build_id FROM sessions WHERE project_id = '${game.projectId}' AND id IN ('${id}', '${marker}')`,
      ),
    (found) => found.some((row) => row.id === marker),
  );
  return rows.filter((row) => row.id === id).map(({ build_id }) => ({ build_id }));
}
