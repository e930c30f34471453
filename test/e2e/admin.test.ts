/** Tests that operators can manage tenants, projects, and tokens on the admin listener. */

import { laneOf } from '@questlog/schemas/uuid';
import { describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, aToken, events } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
const admin = (method: string, path: string, body?: unknown): Promise<Answer> =>
  shared.product.admin(method, `/admin${path}`, body);
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

describe.concurrent('a tenant', () => {
  test('is created with an id, no quota and a spread of 1 unless they are given', async () => {
    const plain = await admin('POST', '/tenants', { name: 'Studio' });
    const given = { id: anUnknownId(), name: 'Ünï studio', monthlySoftQuota: 1_000_000, spread: 4 };
    const whole = await admin('POST', '/tenants', given);

    expect(plain.status).toBe(201);
    expect(plain.json()).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'Studio',
      monthlySoftQuota: null,
      spread: 1,
      limits: null,
      suspended: false,
      createdAt: expect.stringMatching(TIMESTAMP),
    });
    expect(whole.status).toBe(201);
    expect(whole.json()).toMatchObject(given);
    expect(await listed('/tenants', whole.json().id)).toEqual(whole.json());
  });

  test('created again with the same id is a 200, and with different content a 409', async () => {
    const given = { id: anUnknownId(), name: 'Studio', monthlySoftQuota: 5 };
    const first = await admin('POST', '/tenants', given);
    const again = await admin('POST', '/tenants', { ...given, id: given.id.toUpperCase() });
    const other = await admin('POST', '/tenants', { ...given, monthlySoftQuota: 6 });

    expect(again.status).toBe(200);
    expect(again.json()).toEqual(first.json());
    expect(other.status).toBe(409);
    expect(other.json().code).toBe('conflict');
  });

  test('is changed by PATCH, which keeps the omitted fields', async () => {
    const { id } = (
      await admin('POST', '/tenants', { name: 'Studio', monthlySoftQuota: 5, spread: 2 })
    ).json();
    const named = await admin('PATCH', `/tenants/${id}`, { name: 'Renamed' });
    const spread = await admin('PATCH', `/tenants/${id}`, { spread: 8 });
    const freed = await admin('PATCH', `/tenants/${id.toUpperCase()}`, { monthlySoftQuota: null });

    expect(named.status).toBe(200);
    expect(named.json()).toMatchObject({ id, name: 'Renamed', monthlySoftQuota: 5, spread: 2 });
    expect(spread.json()).toMatchObject({ name: 'Renamed', monthlySoftQuota: 5, spread: 8 });
    expect(freed.json()).toMatchObject({ name: 'Renamed', monthlySoftQuota: null, spread: 8 });
    expect(await listed('/tenants', id)).toEqual(freed.json());
  });

  test('with a spread puts each session’s lane into its event ids, and each lane into one partition', async () => {
    const game = await shared.aProject({ revision: 'A', spread: 4 });
    const sessions = await Promise.all(Array.from({ length: 16 }, () => game.session()));
    const created: { id: string; sessionId: string }[] = (
      await game.post(sessions.map((sessionId) => anEvent({ sessionId })))
    ).json();

    const lanes = new Set(created.map(({ id }) => laneOf(id)));
    expect(lanes.size).toBeGreaterThan(1);
    expect(Math.max(...lanes)).toBeLessThan(4);
    await game.get('/v1/quota');
    const rows = await shared.product.sql<{ id: string; log_partition: number }>(
      `SELECT id, log_partition FROM events WHERE project_id = '${game.projectId}'`,
    );
    const byLane = new Map(rows.map(({ id, log_partition }) => [laneOf(id), log_partition]));
    expect(new Set(byLane.values()).size).toBe(lanes.size);
    for (const { id, log_partition } of rows) expect(log_partition).toBe(byLane.get(laneOf(id)));
  });

  test('with a spread uses one lane for all events of a request without sessions', async () => {
    const game = await shared.aProject({ revision: 'B', spread: 64 });
    const requests = await Promise.all(Array.from({ length: 16 }, () => game.post(events(5))));
    const lanes = requests.map((answer) => answer.json().map(({ id }: { id: string }) => laneOf(id)));

    for (const requestLanes of lanes) expect(new Set(requestLanes).size).toBe(1);
    expect(new Set(lanes.flat()).size).toBeGreaterThan(1);
  });

  test('keeps the lanes of existing sessions when its spread is raised', async () => {
    const game = await shared.aProject({ revision: 'A' });
    await admin('PATCH', `/tenants/${game.tenantId}`, { spread: 4 });
    const fresh = await Promise.all(Array.from({ length: 16 }, () => game.session()));
    const ids: string[] = (
      await game.post([game.sessionId, ...fresh].map((sessionId) => anEvent({ sessionId })))
    )
      .json()
      .map(({ id }: { id: string }) => id);

    expect(laneOf(ids[0] ?? '')).toBe(0);
    expect(new Set(ids.map(laneOf)).size).toBeGreaterThan(1);
  });
});

describe.concurrent('a project', () => {
  test('is created in its tenant, without a revision unless one is given', async () => {
    const { id: tenantId } = (await admin('POST', '/tenants', { name: 'Studio' })).json();
    const plain = await admin('POST', '/projects', { tenantId, name: 'Game' });
    const given = { id: anUnknownId(), tenantId, name: 'Game', revision: 'B' };
    const whole = await admin('POST', '/projects', given);

    expect(plain.status).toBe(201);
    expect(plain.json()).toMatchObject({ tenantId, name: 'Game', revision: null });
    expect(whole.json()).toEqual({
      ...given,
      reportWindow: null,
      limits: null,
      suspended: false,
      retentionDays: null,
      createdAt: expect.stringMatching(TIMESTAMP),
    });
    expect((await admin('POST', '/projects', given)).status).toBe(200);
    expect((await admin('POST', '/projects', { ...given, name: 'Other' })).status).toBe(409);
    expect(await listed('/projects', given.id)).toEqual({ ...whole.json(), switches: 0 });
  });

  test('uses the revision of a PATCH, and the deployment’s revision after a PATCH to null', async () => {
    const game = await shared.aProject();
    expect((await game.post(anEvent())).status).toBe(400);
    const patched = await admin('PATCH', `/projects/${game.projectId}`, { revision: 'B' });
    expect(patched.json()).toMatchObject({ id: game.projectId, name: 'a game', revision: 'B' });
    expect((await game.post(anEvent())).status).toBe(201);

    await admin('PATCH', `/projects/${game.projectId}`, { revision: null });
    expect((await game.post(anEvent())).status).toBe(400);
  });
});

describe.concurrent('a token', () => {
  test('is shown once: the list contains neither the token nor its hash', async () => {
    const game = await shared.aProject();
    const { id, token } = await aToken(shared.product, game.projectId, {
      scopes: ['read', 'read'],
      expiresAt: '2199-01-01T00:00:00+01:00',
    });
    const list = await admin('GET', '/tokens');

    expect(token.length).toBeGreaterThan(40);
    expect(list.text()).not.toContain(token);
    expect(await listed('/tokens', id)).toEqual({
      id,
      projectId: game.projectId,
      scopes: ['read'],
      expiresAt: '2198-12-31T23:00:00.000Z',
      ...{ perAddress: null, buildIds: null, lastUsedAt: null, rotatedFrom: null, rotatedTo: null },
      createdAt: expect.stringMatching(TIMESTAMP),
    });
  });

  test('is removed from the list when revoked, and a second revocation is a 404', async () => {
    const game = await shared.aProject();
    const { id } = await aToken(shared.product, game.projectId);

    expect((await admin('DELETE', `/tokens/${id}`)).status).toBe(204);
    expect(await listed('/tokens', id)).toBeUndefined();
    expect((await admin('DELETE', `/tokens/${id}`)).status).toBe(404);
  });
});

async function listed(path: string, id: string): Promise<object | undefined> {
  const all: { id: string }[] = (await admin('GET', path)).json();
  return all.find((one) => one.id === id);
}
