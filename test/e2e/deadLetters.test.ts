/**
 * Tests that a record becomes a dead letter if ClickHouse rejects it. After its cause is fixed, a replay stores, counts, and
 * links its events once.
 */
import { expect, test } from 'vitest';
import { anEvent, eventually, type ListedEvent, type TestProject } from './builders.ts';
import { questlogCommand, reaching } from './questlogCommand.ts';
import { ownProduct } from './sharedProduct.ts';

/** A separate product, because this test changes the table of events. */
const own = ownProduct();
const DEAD_LETTERS = '/admin/dead-letters';

async function deadLetters(query = ''): Promise<{ id: string; reason: string }[]> {
  return (await own.product.admin('GET', DEAD_LETTERS + query)).json().deadLetters;
}

/** Runs a statement as a user of ClickHouse that can change tables. */
async function change(sql: string): Promise<void> {
  const { url, database, username, password } = own.product.credentials.clickhouse;
  const headers = { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password };
  const answer = await fetch(`${url}/?database=${database}`, { method: 'POST', headers, body: sql });
  expect({ status: answer.status, text: await answer.text() }).toEqual({ status: 200, text: '' });
}

async function openNow(): Promise<string | undefined> {
  const metrics = (await own.product.admin('GET', '/metrics')).text();
  return /^questlog_dead_letters_open\{group="questlog-project-events"\} (.*)$/m.exec(metrics)?.[1];
}

/**
 * Returns the events that the linker has linked to the report. Queries the table, because a read of the report would find
 * additional events.
 */
async function linkedTo(reportId: string): Promise<string[]> {
  const rows = await own.product.sql<{ id: string }>(
    `SELECT event_id AS id FROM report_links WHERE report_id = '${reportId}' AND state = 'linked'`,
  );
  return rows.map(({ id }) => id);
}

async function trailOf(game: TestProject, reportId: string): Promise<string[]> {
  const { events } = (await game.get(`/v1/reports/${reportId}/events`)).json();
  return events.map(({ id }: ListedEvent) => id);
}

test('a replay after the fix stores, counts, and links the rejected events once each', async () => {
  const game = await own.aProject({ revision: 'A' });
  const sent = (eventType: string) => game.post(anEvent({ sessionId: game.sessionId, eventType }));
  const run = (...args: string[]) =>
    questlogCommand(args, { env: reaching(own.product, game, own.product.dataDir) });
  const before = (await game.report({ sessionId: game.sessionId, title: 'before' })).json().id;
  await change("ALTER TABLE events ADD CONSTRAINT no_poison CHECK event_type != 'poison'");
  const [poison] = (await sent('poison')).json();
  const [discarded] = (await sent('poison')).json();
  const [good] = (await sent('good')).json();
  expect((await game.get(`/v1/events/${good.id}`)).status).toBe(200);

  const [second, first, ...more] = await eventually(deadLetters, ({ length }) => length === 2);
  expect(more).toEqual([]);
  expect(first?.reason).toContain('no_poison');
  expect(await openNow()).toBe('2');
  const listed = await run('dead-letters', 'list', '--from', '10m', '--cause', 'no_poison', '--json');
  expect(JSON.parse(listed.stdout)).toMatchObject([{ id: second?.id }, { id: first?.id }]);
  const shown = JSON.parse((await run('dead-letters', 'show', first?.id ?? '')).stdout);
  expect(shown).toMatchObject({ topic: 'questlog.events.v1', key: game.tenantId, state: 'open' });
  expect(shown.value.events).toMatchObject([{ id: poison.id, eventType: 'poison' }]);
  expect((await game.get(`/v1/events/${poison.id}`)).status).toBe(404);
  // Files a second report before the dead letter is replayed. The linker has already processed the record of the event, and the
  // event is not in ClickHouse yet.
  const after = (await game.report({ sessionId: game.sessionId, title: 'after' })).json().id;
  await eventually(
    () => linkedTo(after),
    (ids) => ids.includes(good.id),
  );

  await change('ALTER TABLE events DROP CONSTRAINT no_poison');
  const replayed = await run('dead-letters', 'replay', first?.id ?? '');
  expect(replayed).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('replayed to questlog.events.v1'),
  });
  await eventually(
    () => game.get(`/v1/events/${poison.id}`),
    ({ status }) => status === 200,
  );
  await eventually(
    () => linkedTo(after),
    (ids) => ids.includes(poison.id),
  );
  const again = await own.product.admin('POST', `${DEAD_LETTERS}/${first?.id}/replay`);
  expect([again.status, again.json().code]).toEqual([409, 'already_decided']);
  expect(await run('dead-letters', 'discard', second?.id ?? '')).toMatchObject({ code: 0 });
  expect([await deadLetters(), (await deadLetters('?state=replayed')).map(({ id }) => id)]).toEqual([
    [],
    [first?.id],
  ]);
  expect(await openNow()).toBe('0');

  for (const report of [before, after])
    expect((await trailOf(game, report)).toSorted()).toEqual([poison.id, good.id].toSorted());
  const rows = await own.product.sql<{ id: string; n: number }>(
    `SELECT id, count() AS n FROM events WHERE project_id = '${game.projectId}' GROUP BY id`,
  );
  expect(new Map(rows.map(({ id, n }) => [id, n]))).toEqual(
    new Map([
      [poison.id, 1],
      [good.id, 1],
    ]),
  );
  expect((await game.get(`/v1/events/${discarded.id}`)).status).toBe(404);
  const verified = await run('verify', '--from', '10m');
  expect(verified).toMatchObject({ code: 0, stderr: expect.stringContaining('nothing differs') });
});
