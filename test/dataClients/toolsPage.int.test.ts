/** Runs the code of `docs/data-tools.md` with the user `reader` of the embedded ClickHouse. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { aClickHouse, type TestServer } from '@questlog/runtime/clickhouse/chdb/testing/aClickHouse';
import { pythonWith } from '@questlog/runtime/process/testing/pythonEnvironment';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { JDBC_VERSIONS } from './clients.ts';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const PAGE = readFileSync(here('../../docs/data-tools.md'), 'utf8');
const REQUIREMENTS = here('requirements.txt');
const ID = '01a1fe02-7454-7000-a110-3027adf24232';
const python = await pythonWith(REQUIREMENTS, 'the code of docs/data-tools.md');

let it: TestServer;
beforeAll(async () => {
  it = await aClickHouse({ hasTables: true });
  await it.ask(`INSERT INTO events (tenant_id, project_id, id, log_id, event_type, occurred_at, received_at, id_at)
    SELECT '${ID}', '${ID}', '${ID}', '${ID}', 'kill', now(), now(), now()`);
});
afterAll(() => it[Symbol.asyncDispose]());

/** Returns the code of a language with the port and the password of the server. */
function codeIn(language: string): string[] {
  const { port } = new URL(it.server.url);
  return [...PAGE.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))].map(([, code = '']) =>
    code.replaceAll('<password>', it.reader.password).replaceAll('8123', port),
  );
}

test('the Python code reads data frames and the names of tables', async ({ skip }) => {
  if (python === undefined) return skip('there is no Python with the clients');
  const pivot = /`events(\.pivot\(.*\))\.plot\(\)`/.exec(PAGE)?.[1];
  const polars = /`(polars\..*?)`/.exec(PAGE)?.[1];
  const code = [
    ...codeIn('python'),
    `print(events${pivot}.to_json(), "players" in tables)`,
    'import polars\nquery = "SELECT toString(id) AS id FROM events"',
    `print(${polars}.to_dicts())`,
  ].join('\n');
  const { stdout } = await promisify(execFile)(python, ['-c', code]);
  expect(stdout).toMatch(/^\{"kill":\{"\d+":1\}\} True$/m);
  expect(stdout).toContain(`[{'id': '${ID}'}]`);
});

test('the SQL of Grafana and Metabase returns the events', async () => {
  const statements = codeIn('sql').map((sql) =>
    sql
      .replace('$__timeInterval(received_at)', 'toStartOfMinute(received_at)')
      .replace('$__timeFilter(received_at)', 'true'),
  );
  expect(statements).toHaveLength(2);
  for (const sql of statements) expect(await it.askAsReader(sql)).toMatch(/\t1\n$/);
});

test('the address of Power BI returns CSV', async () => {
  const [, url = '', user = '', key = ''] =
    /Contents\("(.+?)".*User" = "(.+?)".*Key" = "(.+?)"/s.exec(codeIn('text').at(-1) ?? '') ?? [];
  const answer = await fetch(url, { headers: { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': key } });
  expect(await answer.text()).toMatch(/^"tenant_id","project_id"/);
});

test('the page names the tested versions', () => {
  const python = Object.fromEntries(
    readFileSync(REQUIREMENTS, 'utf8')
      .split('\n')
      .map((line) => line.split('==')),
  );
  const client = JSON.parse(readFileSync(here('../../node_modules/@clickhouse/client/package.json'), 'utf8'));
  const versions = [
    ...['clickhouse-connect', 'SQLAlchemy', 'dbt-clickhouse'].map((name) => python[name]),
    ...[/clickhouse-go\/v2 v(\S+)/.exec(readFileSync(here('go/go.mod'), 'utf8'))?.[1], client.version],
    ...JDBC_VERSIONS,
  ];
  for (const version of versions) expect(PAGE).toContain(` ${version}`);
});
