/** Runs every query of the dashboards with a real Prometheus and ClickHouse. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { anEvent, events, eventually } from '../e2e/builders.ts';
import { sharedProduct } from '../e2e/sharedProduct.ts';
import { findProgram } from '../games/gamePages.ts';
import { ROOT } from '../tidy/projectFiles.ts';
import { DASHBOARDS } from './dashboards/dashboards.ts';
import { NO_THRESHOLDS } from './dashboards/panels.ts';
import { labelValues, PANELS, QUERIES, unansweredQueries, VARIABLES } from './dashboards/queries.ts';
import { startPrometheus } from './prometheus.ts';

const shared = sharedProduct();
const program = findProgram('prometheus');
if (program === undefined) console.log('skipped: this test needs Prometheus (Debian package prometheus)');
const WITHIN_MS = 60_000;

const reference = readFileSync(join(ROOT, 'docs/reference/metrics.md'), 'utf8');

test('the dashboards use only metrics of the reference', () => {
  const rules = readFileSync(join(ROOT, 'deploy/monitoring/rules.yaml'), 'utf8');
  for (const { expr = '' } of QUERIES)
    for (const [name] of expr.matchAll(/questlog[\w:]+/g))
      if (name.includes(':')) expect(rules).toContain(`record: ${name}\n`);
      else expect(reference).toContain(`\`${name.replace(/_(bucket|count)$/, '')}\``);
});

test('each panel has a title, a unit, and its own position', () => {
  const places = PANELS.map(({ name, gridPos }) => `${name.split(':')[1]} ${gridPos?.x} ${gridPos?.y}`);
  expect(new Set(places).size).toBe(PANELS.length);
  for (const { name, fieldConfig } of PANELS)
    expect([name, fieldConfig?.defaults.unit]).not.toContain(undefined);
});

test('each panel has thresholds, or the reason why it has none', () => {
  const withThresholds = PANELS.filter(
    ({ fieldConfig }) => (fieldConfig?.defaults.thresholds?.steps.length ?? 0) > 1,
  );
  for (const panel of PANELS) {
    const hasReason = panel.description?.includes(`${NO_THRESHOLDS} `) ?? false;
    expect([panel.name, withThresholds.includes(panel)]).toEqual([panel.name, !hasReason]);
  }
  console.log(`${withThresholds.length} of ${PANELS.length} panels have thresholds`);
});

test('each dashboard defines exactly the variables that its panels use', () => {
  for (const [title, variables] of Object.entries(VARIABLES)) {
    const own = QUERIES.filter(({ panel }) => panel.startsWith(`${title}: `));
    const texts = own.map(({ expr, rawSql }) => expr ?? rawSql).join();
    const used = [...texts.matchAll(/\$([a-z]+)/g)].map(([, name]) => name);
    expect([title, ...new Set(used)].toSorted()).toEqual([title, ...Object.keys(variables)].toSorted());
  }
});

test.skipIf(program === undefined)('every query of the dashboards returns values', async () => {
  const game = await shared.aProject({ revision: 'A' });
  const sessionId = await game.session();
  const body = [anEvent({ sessionId })];
  const { adminUrl } = shared.product.credentials;
  const labels = { cluster: 'eu', namespace: 'game' };
  const prometheus = await startPrometheus(program ?? '', { targets: [new URL(adminUrl).host], labels });
  onTestFinished(prometheus.stop);
  expect((await game.report({ sessionId, report: { title: 'Stuck', severity: 'critical' } })).status).toBe(
    201,
  );
  expect((await game.post([{ sessionId, eventType: 7 }])).status).toBe(400);

  const sql = QUERIES.filter(({ rawSql }) => rawSql !== undefined);
  const unanswered = async (): Promise<string[]> => {
    expect((await game.post([...body, ...events(3, { sessionId })])).status).toBe(201);
    const found = sql.map(async ({ panel, rawSql = '' }) => {
      const rows = await shared.product.sql(asClickHouseQuery(rawSql, game.projectId));
      return rows.length === 0 ? [`${panel}: ${rawSql}`] : [];
    });
    return [
      ...(await Promise.all(found)).flat(),
      ...(await unansweredQueries(prometheus, { ofCluster: false })),
    ];
  };
  expect(await eventually(unanswered, (found) => found.length === 0, WITHIN_MS)).toEqual([]);

  const expected = {
    ...labels,
    service: 'questlog',
    tenant: expect.stringMatching(/^[0-9a-f-]{36}$/),
    project: game.projectId,
  };
  for (const [title, variables] of Object.entries(VARIABLES))
    for (const [name, query] of Object.entries(variables)) {
      const values = query.startsWith('SELECT')
        ? (await shared.product.sql(query)).flatMap((row) => Object.values(row))
        : await labelValues(prometheus, query);
      expect([title, name, values]).toEqual([
        title,
        name,
        expect.arrayContaining([Reflect.get(expected, name)]),
      ]);
    }

  const resources = await prometheus.query('group by (resource) (questlog_resource_limit)');
  const documented = [...reference.matchAll(/`([a-z_]+)`(?=[^\n]*:)/g)].map(([, name]) => name);
  for (const { metric } of resources) expect(documented).toContain(metric['resource']);
  console.log(
    `${DASHBOARDS.length} dashboards, ${PANELS.length} panels, ${QUERIES.length - sql.length} PromQL and ${sql.length} SQL queries`,
  );
});

/** Replaces the macros as the plugin grafana-clickhouse-datasource does. */
function asClickHouseQuery(sql: string, projectId: string): string {
  return sql
    .replace(/\$__timeFilter\((\w+)\)/g, '$1 >= now() - INTERVAL 6 HOUR AND $1 <= now()')
    .replace(/\$__timeInterval\((\w+)\)/g, 'toStartOfInterval(toDateTime($1), INTERVAL 60 second)')
    .replaceAll('$project', projectId);
}
