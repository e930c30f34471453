/** Runs every query of the dashboards with a real Prometheus and ClickHouse. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { anEvent, events, eventually } from '../e2e/builders.ts';
import { sharedProduct } from '../e2e/sharedProduct.ts';
import { findProgram } from '../games/gamePages.ts';
import { ROOT } from '../tidy/projectFiles.ts';
import { DASHBOARDS } from './dashboards/dashboards.ts';
import { startPrometheus } from './prometheus.ts';

const shared = sharedProduct();
const program = findProgram('prometheus');
if (program === undefined) console.log('skipped: this test needs Prometheus (Debian package prometheus)');
const WITHIN_MS = 60_000;

interface Query {
  readonly panel: string;
  readonly expr?: string;
  readonly rawSql?: string;
}

const panels = DASHBOARDS.flatMap(({ title, panels = [] }) =>
  panels.flatMap((panel) => ('targets' in panel ? [{ ...panel, name: `${title}: ${panel.title}` }] : [])),
);
const queries = panels.flatMap(({ name, targets = [] }) =>
  targets.map((target): Query => ({ ...target, panel: name })),
);

const reference = readFileSync(join(ROOT, 'docs/reference/metrics.md'), 'utf8');

test('the dashboards use only metrics of the reference', () => {
  const rules = readFileSync(join(ROOT, 'deploy/monitoring/rules.yaml'), 'utf8');
  for (const { expr = '' } of queries)
    for (const [name] of expr.matchAll(/questlog[\w:]+/g))
      if (name.includes(':')) expect(rules).toContain(`record: ${name}\n`);
      else expect(reference).toContain(`\`${name.replace(/_(bucket|count)$/, '')}\``);
});

test('each panel has a title, a unit, and its own position', () => {
  const places = panels.map(({ name, gridPos }) => `${name.split(':')[1]} ${gridPos?.x} ${gridPos?.y}`);
  expect(new Set(places).size).toBe(panels.length);
  for (const { name, fieldConfig } of panels)
    expect([name, fieldConfig?.defaults.unit]).not.toContain(undefined);
});

test.skipIf(program === undefined)('every query of the dashboards returns values', async () => {
  const game = await shared.aProject({ revision: 'A' });
  const sessionId = await game.session();
  const body = [anEvent({ sessionId })];
  const { adminUrl } = shared.product.credentials;
  const prometheus = await startPrometheus(program ?? '', { targets: [new URL(adminUrl).host] });
  onTestFinished(prometheus.stop);
  expect((await game.report({ sessionId, report: { title: 'Stuck', severity: 'critical' } })).status).toBe(
    201,
  );
  expect((await game.post([{ sessionId, eventType: 7 }])).status).toBe(400);

  const unanswered = async (): Promise<string[]> => {
    expect((await game.post([...body, ...events(3, { sessionId })])).status).toBe(201);
    const found = await Promise.all(
      queries.map(async ({ panel, expr, rawSql }) => {
        const values =
          expr === undefined
            ? await shared.product.sql(asClickHouseQuery(rawSql ?? '', game.projectId))
            : await prometheus.query(asInstantQuery(expr));
        return values.length === 0 ? [`${panel}: ${expr ?? rawSql}`] : [];
      }),
    );
    return found.flat();
  };
  expect(await eventually(unanswered, (found) => found.length === 0, WITHIN_MS)).toEqual([]);
  const resources = await prometheus.query('group by (resource) (questlog_resource_limit)');
  const documented = [...reference.matchAll(/`([a-z_]+)`(?=[^\n]*:)/g)].map(([, name]) => name);
  for (const { metric } of resources) expect(documented).toContain(metric['resource']);
  const sql = queries.filter(({ rawSql }) => rawSql !== undefined).length;
  console.log(
    `${DASHBOARDS.length} dashboards, ${panels.length} panels, ${queries.length - sql} PromQL and ${sql} SQL queries`,
  );
});

/** Replaces the variables as Grafana does if all values are selected. */
function asInstantQuery(expr: string): string {
  return expr.replaceAll('$__rate_interval', '10s').replace(/\$(cluster|namespace|service|tenant)\b/g, '.*');
}

/** Replaces the macros as the plugin grafana-clickhouse-datasource does. */
function asClickHouseQuery(sql: string, projectId: string): string {
  return sql
    .replace(/\$__timeFilter\((\w+)\)/g, '$1 >= now() - INTERVAL 6 HOUR AND $1 <= now()')
    .replace(/\$__timeInterval\((\w+)\)/g, 'toStartOfInterval(toDateTime($1), INTERVAL 60 second)')
    .replaceAll('$project', projectId);
}
