/** Tests the monthly soft quota: the flags of events, the counts, and changes of the quota. */
import { describe, expect, test } from 'vitest';
import { anEvent, events, type TestProject } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();

describe.concurrent('overQuota', () => {
  test('is true for the events above the quota, also within a batch', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 7 });

    expect(flagsOf(await send(game, 5))).toEqual([false, false, false, false, false]);
    expect(flagsOf(await send(game, 5))).toEqual([false, false, true, true, true]);
    expect(flagsOf(await send(game, 1))).toEqual([true]);
  });

  test('is exact under 32 concurrent requests, and flags the last events of a batch', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 500 });
    const answers = await Promise.all(Array.from({ length: 32 }, () => send(game, 25)));

    const flags = answers.map(flagsOf);
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 32 }, () => 201));
    expect(flags.flat().filter((flag) => flag === false)).toHaveLength(500);
    expect(flags.flat().filter((flag) => flag === true)).toHaveLength(300);
    for (const batch of flags) expect(batch).toEqual(batch.toSorted());
    expect((await game.get('/v1/quota')).json().used).toBe(800);
  });

  test('is exact while counts move from memory to the projection', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 400 });
    const flags: (boolean | undefined)[] = [];
    for (let round = 0; round < 10; round++) {
      flags.push(...(await Promise.all([send(game, 30), send(game, 20)])).flatMap(flagsOf));
      if (round % 3 === 0) await game.get('/v1/quota');
    }

    expect(flags.filter((flag) => flag === false)).toHaveLength(400);
    expect(flags.filter((flag) => flag === true)).toHaveLength(100);
  });

  test('is the same in the response and in ClickHouse', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 1 });
    const created: { id: string; overQuota: boolean }[] = (await send(game, 2)).json();
    const read = await Promise.all(created.map(({ id }) => game.get(`/v1/events/${id}`)));

    expect(read.map((answer) => answer.json().overQuota)).toEqual([false, true]);
    const rows = await shared.product.sql(
      `SELECT id, over_quota AS overQuota FROM events WHERE session_id = '${game.sessionId}' ORDER BY log_offset, log_index`,
    );
    expect(rows).toEqual(created.map(({ id, overQuota }) => ({ id, overQuota })));
  });
});

describe.concurrent('GET /v1/quota', () => {
  test('returns the UTC month, the usage, and the quota', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 10 });
    const answer = await game.get('/v1/quota');

    expect(answer.status).toBe(200);
    expect(answer.json()).toEqual({ month: new Date().toISOString().slice(0, 7), used: 0, softQuota: 10 });
  });

  test('counts every previously acknowledged event, on all paths', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 10 });
    await send(game, 3);
    expect((await game.get('/v1/quota')).json().used).toBe(3);
    await Promise.all([send(game, 20), send(game, 1), game.post(anEvent({ sessionId: game.sessionId }))]);

    expect((await game.get('/v1/quota')).json().used).toBe(25);
  });

  test('counts by the time of receipt, not by occurredAt', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 1 });
    const times = ['1999-12-31', '2199-01-01', '2026-01-01'];
    const answer = await game.post(
      times.map((occurredAt) => anEvent({ sessionId: game.sessionId, occurredAt })),
    );

    expect(flagsOf(answer)).toEqual([false, true, true]);
    const month = new Date().toISOString().slice(0, 7);
    expect((await game.get('/v1/quota')).json()).toEqual({ month, used: 3, softQuota: 1 });
  });

  test('does not count rejected events', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 2 });
    await game.post([anEvent({ sessionId: game.sessionId }), anEvent()]);
    await game.post(events(501, { sessionId: game.sessionId }));

    expect((await game.get('/v1/quota')).json().used).toBe(0);
    expect(flagsOf(await send(game, 3))).toEqual([false, false, true]);
  });

  test('equals the count in ClickHouse', async () => {
    const game = await shared.aProject({ revision: 'A' });
    await send(game, 11);
    const { used } = (await game.get('/v1/quota')).json();
    const rows = await shared.product.sql(
      `SELECT sum(used) AS used, (SELECT count() FROM events WHERE tenant_id = '${game.tenantId}') AS stored
       FROM quota_usage WHERE tenant_id = '${game.tenantId}'`,
    );

    expect(rows).toEqual([{ used, stored: 11 }]);
  });
});

describe.concurrent('the quota', () => {
  test('is shared by the projects of a tenant, and counts revision B too', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 4 });
    const sibling = await shared.aProject({ revision: 'B', tenantId: game.tenantId });
    const stranger = await shared.aProject({ revision: 'A', monthlySoftQuota: 4 });

    const shown = await sibling.post(events(3));
    expect(shown.json().map((created: object) => 'overQuota' in created)).toEqual([false, false, false]);
    expect(flagsOf(await send(game, 2))).toEqual([false, true]);
    expect(flagsOf(await send(stranger, 2))).toEqual([false, false]);
    expect((await sibling.get('/v1/quota')).json()).toMatchObject({ used: 5, softQuota: 4 });
  });

  test('takes effect within 2 s of a PATCH, up and down', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 1 });
    expect(flagsOf(await send(game, 2))).toEqual([false, true]);

    await patchQuota(game, 3);
    expect(flagsOf(await send(game, 2))).toEqual([false, true]);
    expect((await game.get('/v1/quota')).json()).toMatchObject({ used: 4, softQuota: 3 });
    await patchQuota(game, 2);
    expect(flagsOf(await send(game, 1))).toEqual([true]);
  });

  test('flags no events after it was removed', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 0 });
    expect(flagsOf(await send(game, 1))).toEqual([true]);

    await patchQuota(game, null);
    expect(flagsOf(await send(game, 2))).toEqual([false, false]);
    expect((await game.get('/v1/quota')).json()).toMatchObject({ used: 3, softQuota: null });
  });

  test('counts earlier events when it is added', async () => {
    const game = await shared.aProject({ revision: 'A' });
    await send(game, 10);
    expect((await game.get('/v1/quota')).json().used).toBe(10);
    await patchQuota(game, 11);

    expect(flagsOf(await send(game, 3))).toEqual([false, true, true]);
  });

  test('counts the events between its removal and its return', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 5 });
    await send(game, 1);
    await patchQuota(game, null);
    await send(game, 9);
    await patchQuota(game, 11);

    expect(flagsOf(await send(game, 3))).toEqual([false, true, true]);
  });
});

async function patchQuota(game: TestProject, monthlySoftQuota: number | null): Promise<void> {
  const answer = await shared.product.admin('PATCH', `/admin/tenants/${game.tenantId}`, { monthlySoftQuota });
  expect(answer.status).toBe(200);
}

function send(game: TestProject, count: number): Promise<Answer> {
  return game.post(events(count, { sessionId: game.sessionId }));
}

function flagsOf(answer: Answer): (boolean | undefined)[] {
  return answer.json().map(({ overQuota }: { overQuota?: boolean }) => overQuota);
}
