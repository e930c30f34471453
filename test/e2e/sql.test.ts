/** Tests POST /admin/sql: the formats and the error messages of ClickHouse. Other tests cover the account of the reader. */
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, events, eventually, type TestProject } from './builders.ts';
import type { Answer } from './product.ts';
import { ownProduct } from './sharedProduct.ts';

const shared = ownProduct();
let game: TestProject;
const ask = (query: string): Promise<Answer> => shared.product.admin('POST', '/admin/sql', { query });

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
  const answer = await game.post([
    ...events(3, { sessionId: game.sessionId }),
    anEvent({ sessionId: game.sessionId, eventType: 'error', payload: { 'quote"': "it's" } }),
  ]);
  await game.get(`/v1/events/${answer.json()[0].id}`);
  // Waits for the sessions too, because sessions are projected separately.
  await eventually(
    () => ask(`SELECT id FROM sessions WHERE project_id = '${game.projectId}'`),
    (found) => found.json().rows === 1,
  );
});

describe.concurrent('a response', () => {
  test('is in the format JSON by default', async () => {
    const answer = await ask(
      `SELECT event_type, count() AS events FROM events WHERE project_id = '${game.projectId}'
       GROUP BY event_type ORDER BY event_type`,
    );

    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(answer.json()).toMatchObject({
      meta: [
        { name: 'event_type', type: 'String' },
        { name: 'events', type: 'UInt64' },
      ],
      data: [
        { event_type: 'checkpoint', events: 3 },
        { event_type: 'error', events: 1 },
      ],
      rows: 2,
      statistics: {
        elapsed: expect.any(Number),
        rows_read: expect.any(Number),
        bytes_read: expect.any(Number),
      },
    });
  });

  test('reads the product’s database by default, and no other database', async () => {
    const plain = await ask('SELECT count() AS n FROM events');
    const { database } = shared.product.credentials.clickhouse;
    const named = await ask(`SELECT count() AS n FROM ${database}.events`);
    const foreign = await ask('SELECT count() AS n FROM elsewhere.events');

    expect(plain.json().data).toEqual([{ n: 4 }]);
    expect(named.json().data).toEqual(plain.json().data);
    expect(foreign.json()).toMatchObject({ status: 400, code: 'query_not_allowed' });
  });

  test('is in the format of the query, with its content type', async () => {
    const answer = await ask('SELECT 1 AS a, 2 AS b FORMAT CSVWithNames');

    expect(answer.headers.get('content-type')).toMatch(/^text\/csv/);
    expect(answer.text()).toBe('"a","b"\n1,2\n');
  });

  test('has totals, settings of the query, and the schema for tools', async () => {
    const where = `WHERE project_id = '${game.projectId}'`;
    const totals = await ask(
      `FROM events SELECT event_type, count() AS n ${where} GROUP BY event_type WITH TOTALS SETTINGS max_threads = 1`,
    );
    const schema = await ask(
      "SELECT count() > 5 AS n FROM information_schema.tables WHERE table_schema = 'questlog'",
    );

    expect(totals.json().totals).toEqual({ event_type: '', n: 4 });
    expect(schema.status).toBe(200);
  });

  test('has no rows and all columns for an empty result', async () => {
    const answer = await ask("SELECT id FROM events WHERE event_type = 'none'");

    expect(answer.status).toBe(200);
    expect(answer.json()).toMatchObject({ meta: [{ name: 'id', type: 'UUID' }], data: [], rows: 0 });
  });

  test('has at most 100,000 rows; a query with more rows is rejected', async () => {
    expect((await ask('SELECT number FROM numbers(100000)')).json().rows).toBe(100_000);
    const answer = await ask('SELECT number FROM numbers(100001)');

    expect([answer.status, answer.json().code]).toEqual([400, 'query_failed']);
    const { url, database, reader } = shared.product.credentials.clickhouse;
    const itself = `connect to ${url}, database ${database}, as user ${reader.username}`;
    expect(answer.json().detail).toContain(`ClickHouse itself has no row limit: ${itself}`);
    const headers = { 'X-ClickHouse-User': reader.username, 'X-ClickHouse-Key': reader.password };
    const body = 'SELECT number FROM numbers(100001) FORMAT Parquet';
    const asked = await fetch(`${url}/?database=${database}`, { method: 'POST', headers, body });
    expect([asked.status, (await asked.bytes()).length > 100_001]).toEqual([200, true]);
  });

  test.each(['throw', 'break'])('is limited even if the query changes the limits: %s', async (mode) => {
    const answer = await ask(
      `SELECT number FROM numbers(100001) SETTINGS max_result_rows = 0, result_overflow_mode = '${mode}'`,
    );

    expect(answer.status).toBe(400);
    expect(answer.json().code).toMatch(/^query_(failed|not_allowed)$/);
  });

  test.each(['groupArray(number) FROM numbers(100000000)', "repeat('x', 1000000000)"])(
    'that needs more memory than a query may use is rejected with ClickHouse’s text and the limit: %s',
    async (what) => {
      const answer = await ask(`SELECT ${what}`);

      expect([answer.status, answer.json().code]).toEqual([400, 'query_failed']);
      expect(answer.json().detail).toMatch(
        /^Query memory limit exceeded: .*maximum: 96\.00 MiB.* The query’s memory limit is 96 MiB: select fewer columns, or filter\.$/s,
      );
    },
  );

  test('supports all pure functions, and returns payloads unchanged', async () => {
    const answer = await ask(
      `SELECT payload, JSONExtractString(payload, 'quote"') AS text, upper(hex(payload)) AS hex
       FROM events WHERE event_type = 'error'`,
    );

    const payload = '{"quote\\"":"it\'s"}';
    const hex = Buffer.from(payload).toString('hex').toUpperCase();
    expect(answer.json().data).toEqual([{ payload, text: "it's", hex }]);
  });
});

describe.concurrent('the tables', () => {
  test.each([
    [
      'events',
      'id, tenant_id, project_id, session_id, build_id, event_type, occurred_at, received_at, payload, over_quota, log_id, log_partition, log_offset, log_index',
    ],
    ['sessions', 'tenant_id, project_id, id, build_id, started_at'],
    ['quota_usage', 'tenant_id, month, used'],
    ['event_counts_by_minute', 'tenant_id, project_id, minute, event_type, count'],
    ['appends', 'append_id, tenant_id, project_id, idempotency_key, received_at, events'],
  ])('have their columns: %s', async (table, columns) => {
    const answer = await ask(`SELECT ${columns} FROM ${table} WHERE tenant_id = '${game.tenantId}' LIMIT 1`);

    expect(answer.status).toBe(200);
    expect(answer.json().rows).toBe(1);
  });

  test('have consistent rows', async () => {
    const where = `WHERE tenant_id = '${game.tenantId}'`;
    const answer = await ask(
      `SELECT (SELECT count() FROM events ${where}) AS stored, (SELECT sum(used) FROM quota_usage ${where}) AS used,
         (SELECT sum(count) FROM event_counts_by_minute ${where}) AS counted,
         (SELECT sum(events) FROM appends ${where}) AS appended`,
    );

    expect(answer.json().data).toEqual([{ stored: 4, used: 4, counted: 4, appended: 4 }]);
  });
});

describe.concurrent('a statement that is not a single query', () => {
  test.each([
    'DROP TABLE events',
    'TRUNCATE TABLE events',
    "INSERT INTO events (event_type) VALUES ('x')",
    'ALTER TABLE events DELETE WHERE 1',
    'CREATE TABLE t (a UInt8) ENGINE = Memory',
    'SYSTEM FLUSH LOGS',
    'SET max_result_rows = 0',
    'SELECT 1; SELECT 2',
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM url('http://127.0.0.1/', 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1', 'system', 'one')",
    "SELECT * FROM executable('id', 'TSV', 'a String')",
    "SELECT 1 INTO OUTFILE '/tmp/questlog-out'",
    "SELECT file('/etc/passwd')",
    'SELECT * FROM events SETTINGS max_execution_time = 0, allow_introspection_functions = 1',
    "SELECT arrayMap(file, ['/etc/passwd'])",
    "SELECT * FROM '/etc/passwd'; SELECT 1",
    'SELECT * FROM system.users',
    'SELECT',
    'not a question',
  ])('is a 400 that says what is not allowed: %s', async (query) => {
    const answer = await ask(query);

    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({ code: 'query_not_allowed', detail: expect.stringMatching(/\w+/) });
    expect(answer.text()).not.toContain('root:');
  });

  test('changes nothing', async () => {
    expect((await ask('SELECT count() AS n FROM events')).json().data).toEqual([{ n: 4 }]);
  });

  test.each([
    ['a column that does not exist', 'SELECT nothing FROM events'],
    ['a failure while it runs', 'SELECT throwIf(number = 3) FROM numbers(10)'],
    ['a type that does not fit', "SELECT toUInt8('x')"],
  ])('is a 400 with ClickHouse’s own words: %s', async (_, query) => {
    const answer = await ask(query);

    expect(answer.status).toBe(400);
    expect(answer.json().code).toMatch(/^query_(failed|not_allowed)$/);
    expect(answer.json().detail.length).toBeGreaterThan(10);
    expect(answer.json().detail).not.toContain('    at ');
  });

  test('shows the word that ClickHouse does not understand, with the text after it', async () => {
    expect((await ask('SELEC 1 AS n')).json().detail).toMatch(/position 1: SELEC 1 AS n$/);
  });
});

test('a query ends with its client, and the query after 32 waiting queries gets a 503', async () => {
  const { adminUrl, adminToken } = shared.product.credentials;
  const leaving = new AbortController();
  const asked = Array.from({ length: 33 }, () =>
    fetch(`${adminUrl}/admin/sql`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${adminToken}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({
        query: 'SELECT sleepEachRow(3) FROM numbers(100) SETTINGS max_block_size = 1',
      }),
      signal: leaving.signal,
    }),
  );
  const refused = await Promise.race(asked);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  leaving.abort();
  await Promise.allSettled(asked);

  // A new query succeeds after the requests are aborted. Without the abort, the running queries would take longer than this wait.
  await expect.poll(async () => (await ask('SELECT 1')).status, { timeout: 15_000 }).toBe(200);
});

test('the reader account of the credentials can query ClickHouse directly', async () => {
  const { url, database, reader } = shared.product.credentials.clickhouse;
  const asked = async (query: string): Promise<Response> =>
    fetch(`${url}/?database=${database}`, {
      method: 'POST',
      headers: { 'X-ClickHouse-User': reader.username, 'X-ClickHouse-Key': reader.password },
      body: query,
    });

  expect(await (await asked('SELECT count() FROM events')).text()).toBe('4\n');
  expect((await asked("INSERT INTO events (event_type) VALUES ('x')")).ok).toBe(false);
  expect((await asked("SELECT arrayMap(file, ['/etc/passwd'])")).ok).toBe(false);
});
