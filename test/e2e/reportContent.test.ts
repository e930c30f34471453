/**
 * Tests a bug report of a game plugin. The report is stored once despite retries, and the bytes of its context are returned
 * unchanged.
 */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

const CONTEXT =
  '{"buildVersion":"1.4.2","checkpoint":"level_3","extra":{"tags":["movement","ünïcode"],"uptimeSec":1},' +
  '"performance":{"fps":1.0,"frameTimeMs":64.65,"memoryMb":0.0,"nodeCount":9},"platform":"Web",' +
  '"playerPosition":{"x":101.75,"y":-0.5,"z":0},"sceneName":"Arena"}';

/** Returns a body as the published plugin sends it: sorted keys, no spaces, and UTF-8 without escapes. */
function aPluginReport({
  sessionId,
  eventIds,
  clientRequestId,
  sizeBytes = '3223',
}: {
  sessionId: string;
  eventIds: readonly string[];
  clientRequestId: string;
  sizeBytes?: string;
}): string {
  const file =
    `{"attachmentType":"log_bundle","fileName":"game.log","mimeType":"text/plain","sizeBytes":${sizeBytes},` +
    `"uploadId":"${randomUUID()}"}`;
  return (
    `{"attachments":[${file}],"clientRequestId":"${clientRequestId}","context":${CONTEXT},` +
    `"eventIds":${JSON.stringify(eventIds)},"report":{"description":"…","fingerprint":"dash-collision-lock",` +
    `"reporterType":"player","severity":"high","sourceChannel":"api","title":"Player stuck in wall"},"sessionId":"${sessionId}"}`
  );
}

describe.concurrent('a report of a game plugin', () => {
  test('is returned with its texts, files, and context bytes, in responses and in ClickHouse', async () => {
    const sessionId = await game.session();
    const [event] = (await game.post([anEvent({ sessionId })])).json();
    const body = aPluginReport({ sessionId, eventIds: [event.id], clientRequestId: randomUUID() });
    const created = await game.report(body);
    expect([created.status, created.json()]).toMatchObject([
      201,
      {
        sessionId,
        status: 'filed',
        attachmentsMissing: [expect.any(String)],
      },
    ]);
    const { id, reportId } = created.json();
    expect(reportId).toBe(id);

    const shown = await game.get(`/v1/reports/${id}`);
    expect(shown.text()).toContain(`"context":${CONTEXT},`);
    expect(shown.json()).toMatchObject({
      id,
      report: { title: 'Player stuck in wall', severity: 'high', fingerprint: 'dash-collision-lock' },
      attachments: [{ attachmentType: 'log_bundle', mimeType: 'text/plain', state: 'missing' }],
      links: [{ eventId: event.id, source: 'named' }],
    });
    expect(await shared.product.sql(`SELECT title, context FROM reports WHERE id = '${id}'`)).toEqual([
      { title: 'Player stuck in wall', context: CONTEXT },
    ]);
  });

  test('is one report despite retries with float numbers and other content', async () => {
    const sessionId = await game.session();
    const named = { sessionId, eventIds: [], clientRequestId: randomUUID() };
    const first = await game.report(aPluginReport(named));
    const again = await game.report(aPluginReport({ ...named, sizeBytes: '3223.0' }));
    const other = await game.report({
      clientRequestId: named.clientRequestId.toUpperCase(),
      report: { title: 'x' },
    });
    expect([first.status, again.status, other.status]).toEqual([201, 200, 200]);
    expect('idempotent' in first.json()).toBe(false);
    for (const { headers, ...answer } of [again, other]) {
      expect(answer.json()).toMatchObject({ id: first.json().id, sessionId, idempotent: true });
      expect(headers.get('idempotency-replayed')).toBe('true');
    }
    const stranger = await shared.aProject({ revision: 'B' });
    const theirs = await stranger.report({ clientRequestId: named.clientRequestId, report: { title: 'x' } });
    expect([theirs.status, theirs.json().id === first.json().id]).toEqual([201, false]);
  });

  test('is answered with the stored events, also for a retry with other events', async () => {
    const clientRequestId = randomUUID();
    const sent = anEvent({ eventType: 'first', payload: { v: 1 }, sequence: 5 });
    const first = await game.report({ clientRequestId, report: { title: 'one' }, events: [sent] });
    const events = [anEvent({ eventType: 'second', payload: { v: 2 }, sequence: 6 }), anEvent()];
    const again = await game.report({ clientRequestId, report: { title: 'two' }, events });

    expect([first.status, again.status]).toEqual([201, 200]);
    expect(again.json().events).toEqual(first.json().events);
  });

  test('is rejected if malformed, and stays accepted if a retry is malformed', async () => {
    const clientRequestId = randomUUID();
    const malformed = [
      { report: { title: '' } },
      { report: { title: 'x' }, events: [{ eventType: 7 }] },
      { report: { title: 'x' }, id: randomUUID() },
      { sessionId: 'no UUID' },
      {},
    ].map((body) => ({ ...body, clientRequestId }));
    const post = () => Promise.all(malformed.map((body) => game.report(body)));
    expect((await post()).map(({ status }) => status)).toEqual(malformed.map(() => 400));
    const sent = { clientRequestId, report: { title: 'stuck' }, events: [anEvent()] };
    const first = await game.report(sent);
    const answers = await post();
    expect([first, ...answers].map(({ status }) => status)).toEqual([201, ...malformed.map(() => 200)]);
    for (const answer of answers) {
      const { id, events } = first.json();
      expect(answer.json()).toMatchObject({ id, idempotent: true, events });
    }
    const [again, shown] = [await game.report(sent), await game.get(`/v1/reports/${first.json().id}`)];
    expect(again.json().events[0].id).toBe(first.json().events[0].id);
    expect(shown.json()).toMatchObject({ report: { title: 'stuck' }, links: [{ source: 'inline' }] });
  });

  test('is stored without its session, and its named and inline events are linked', async ({ expect }) => {
    const [event] = (await game.post([anEvent()])).json();
    const [sessionId, clientRequestId] = [anUnknownId(), randomUUID()];
    const inline = anEvent({ sessionId });
    const answer = await game.report({
      ...{ sessionId, clientRequestId, report: { title: 'after the outage' } },
      ...{ eventIds: [event.id], events: [inline] },
    });
    expect([answer.status, answer.json().sessionId]).toEqual([201, null]);
    const { id, events } = answer.json();
    expect(events).toMatchObject([{ sessionId: null, reportIds: [id] }]);
    const linked = async () =>
      (await game.get(`/v1/reports/${id}`)).json().links.map(({ state }: { state: string }) => state);
    await expect.poll(linked).toEqual(['linked', 'linked']);
    const rows = await shared.product.sql(
      `SELECT session_id, named_session_id FROM reports WHERE id = '${id}'`,
    );
    expect(rows).toEqual([{ session_id: null, named_session_id: sessionId }]);
    const unnamed = await game.report({ sessionId, report: { title: 'x' } });
    expect([unnamed.status, unnamed.json().code]).toEqual([404, 'unknown_session']);
  });

  test('of a run with more than 1,000 events keeps the last ones', async () => {
    const eventIds = Array.from({ length: 1_001 }, () => randomUUID());
    const answer = await game.report({
      clientRequestId: randomUUID(),
      report: { title: 'a long run' },
      eventIds,
    });
    expect([answer.status, answer.json().eventIdsTruncated, answer.json().links.length]).toEqual([
      201,
      true,
      1_000,
    ]);
  });

  test('without a session or an event is stored, and visible to its project only', async () => {
    const answer = await game.report({ report: { title: 'no session' } });
    expect(answer.status).toBe(201);
    const path = `/v1/reports/${answer.json().id}`;
    expect((await game.get(path)).json()).toMatchObject({
      report: { title: 'no session' },
      context: null,
      links: [],
    });
    const stranger = await shared.aProject();
    expect((await stranger.get(path)).status).toBe(404);
  });

  test('has the build of its session unless the report names a build', async () => {
    const [own, buildId] = [randomUUID(), randomUUID()];
    const sessionId = await game.session({ buildId });
    const inherited = await game.report({ sessionId, report: { title: 't' } });
    const named = await game.report({ sessionId, buildId: own, report: { title: 't' } });
    expect([inherited.json().buildId, named.json().buildId]).toEqual([buildId, own]);
  });
});
