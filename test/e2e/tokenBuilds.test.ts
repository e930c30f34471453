/** Tests a token that may write only for certain builds. Checks every request that can contain a build id. */
import { expect, test } from 'vitest';
import { anEvent, anUnknownId } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();

test('a token for a build and its successor write events of that build or without a build; other builds get a 403 that names the field', async () => {
  const { admin } = shared.product;
  const game = await shared.aProject({ revision: 'B' });
  const build = { version: '1.4.2', platform: 'Web' };
  const registered = await game.request('POST', '/v1/ingest/sessions', { body: { build } });
  const mine: string = registered.json().buildId;
  const [other, ofOther] = [anUnknownId(), await game.session({ buildId: anUnknownId() })];
  const input = { projectId: game.projectId, buildIds: [mine.toUpperCase(), mine] };
  const token = (await admin('POST', '/admin/tokens', input)).json();
  const successor = (await admin('POST', `/admin/tokens/${token.id}/rotate`, { overlapSeconds: 60 })).json();
  const tokens: { id: string }[] = (await admin('GET', '/admin/tokens')).json();

  for (const each of [token, successor]) {
    expect(tokens.find(({ id }) => id === each.id)).toMatchObject({ buildIds: [mine] });
    const send = (path: string, body: object, more = {}) => {
      const headers = { Authorization: `Bearer ${each.token}`, ...more };
      return game.request('POST', `/v1/ingest/${path}`, { body, headers });
    };
    const event = anEvent({ buildId: mine });
    const taken = await Promise.all([
      send('sessions', { build }),
      send('sessions', {}),
      send('events', event),
      send('events', anEvent()),
      send('reports', { buildId: mine, events: [event] }),
      send('reports', { eventIds: [anUnknownId()] }),
    ]);
    expect(taken.map(({ status }) => status)).toEqual(taken.map(() => 201));
    const refused: [string, string, object][] = [
      ['/build', 'sessions', { build: { ...build, version: '1.4.3' } }],
      ['/buildId', 'sessions', { buildId: other }],
      ['/buildId', 'events', [event, anEvent({ buildId: other })]],
      ['/sessionId', 'events', anEvent({ sessionId: ofOther })],
      ['/sessionId', 'events', anEvent({ buildId: mine, sessionId: ofOther })],
      ['/buildId', 'reports', { buildId: other, eventIds: [anUnknownId()] }],
      ['/sessionId', 'reports', { sessionId: ofOther }],
      ['/sessionId', 'reports', { buildId: mine, sessionId: ofOther }],
      ['/events/1/buildId', 'reports', { events: [event, anEvent({ buildId: other })] }],
    ];
    for (const [pointer, path, body] of refused) {
      const answer = (await send(path, body)).json();
      expect(answer).toMatchObject({ status: 403, code: 'build_not_allowed', errors: [{ pointer }] });
      expect(answer.detail).toContain(
        `${pointer.split('/').at(-1)}: the access token may not write for build`,
      );
    }
    const lenient = await send('events', [event, anEvent({ buildId: other })], {
      Prefer: 'handling=lenient',
    });
    expect(lenient.json()).toMatchObject([{ buildId: mine }, { status: 403, code: 'build_not_allowed' }]);
  }
});

test.each([
  ['no build', []],
  ['more builds than a token takes', Array.from({ length: 33 }, anUnknownId)],
  ['what is no UUID', ['1.4.2']],
])('a token for %s is not made', async (_, buildIds) => {
  const { projectId } = shared.product.credentials;
  const answer = await shared.product.admin('POST', '/admin/tokens', { projectId, buildIds });

  expect([answer.status, answer.json().errors[0].pointer]).toEqual([
    400,
    expect.stringMatching(/^\/buildIds/),
  ]);
});
