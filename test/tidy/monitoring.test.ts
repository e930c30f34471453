/** Checks the profile `monitoring` of docker-compose.yml: the mounted files, the data sources of Grafana, and the addresses. */
import { posix } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { projectFiles, textOf } from './projectFiles.ts';
import { expectNone } from './violations.ts';

interface Container {
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
}

interface DataSource {
  readonly type: string;
  readonly uid: string;
  readonly url?: string;
  readonly jsonData?: { readonly host?: string; readonly username?: string };
}

const MONITORING = 'deploy/monitoring';
const files = projectFiles();
const { services }: { services: Record<'prometheus' | 'alertmanager' | 'grafana', Container> } = parse(
  textOf('docker-compose.yml'),
  { merge: true },
);
const sources: DataSource[] = parse(textOf(`${MONITORING}/grafana/datasources.yaml`)).datasources;

/** Returns the path in the project of a path in a container. Undefined if the path is in no mounted file or folder. */
function mounted({ volumes = [] }: Container, path: string): string | undefined {
  const mounts = volumes.filter((mount) => mount.startsWith('./')).map((mount) => mount.split(':'));
  const [found] = mounts.flatMap(([from = '', to = '']) => {
    const inside = posix.relative(to, path);
    return inside.startsWith('..') ? [] : [posix.join(from, inside)];
  });
  return found;
}

function exists(path: string | undefined): boolean {
  return files.some((file) => file === path || file.startsWith(`${path}/`));
}

test('the files that Prometheus, Alertmanager, and Grafana read are mounted', () => {
  const { prometheus, alertmanager, grafana } = services;
  const configOf = ({ command = [] }: Container): string =>
    command.find((flag) => flag.startsWith('--config.file='))?.slice('--config.file='.length) ?? '';
  const rules: string[] = parse(textOf(`${MONITORING}/prometheus.yaml`)).rule_files;
  const providers: { options: { path: string } }[] = parse(
    textOf(`${MONITORING}/grafana/dashboards.yaml`),
  ).providers;
  expect(mounted(prometheus, configOf(prometheus))).toBe(`${MONITORING}/prometheus.yaml`);
  expect(mounted(alertmanager, configOf(alertmanager))).toBe(`${MONITORING}/alertmanager.yaml`);
  expect(rules.map((name) => mounted(prometheus, posix.resolve(configOf(prometheus), '..', name)))).toEqual([
    `${MONITORING}/rules.yaml`,
  ]);
  expect(providers.map(({ options }) => mounted(grafana, options.path))).toEqual([
    `${MONITORING}/dashboards`,
  ]);
  for (const name of ['datasources', 'dashboards'])
    expect(mounted(grafana, `/etc/grafana/provisioning/${name}/questlog.yaml`)).toBe(
      `${MONITORING}/grafana/${name}.yaml`,
    );
  const mounts = Object.values(services).flatMap(({ volumes = [] }) => volumes);
  expectNone(
    mounts
      .filter((mount) => mount.startsWith('./'))
      .map((mount) => posix.normalize(mount.split(':')[0] ?? ''))
      .filter((path) => !exists(path))
      .map((path) => `docker-compose.yml: ${path} does not exist`),
  );
});

test('every data source of a dashboard is a variable for which Grafana has a provisioned data source', () => {
  expectNone(
    files
      .filter((path) => path.startsWith(`${MONITORING}/dashboards/`))
      .flatMap((path) => {
        const text = textOf(path);
        const dashboard = JSON.parse(text);
        const variables: { type: string; name: string; query: string }[] = dashboard.templating.list;
        const used = [...text.matchAll(/"datasource": (?<reference>\{[^}]*\})/g)].map(
          ({ groups }): DataSource => JSON.parse(groups?.['reference'] ?? ''),
        );
        expect(used.length).toBeGreaterThan(0);
        return used
          .filter(
            ({ type, uid }) =>
              !variables.some(
                (one) => `$${one.name}` === uid && one.type === 'datasource' && one.query === type,
              ) || !sources.some((source) => source.type === type),
          )
          .map(({ type, uid }) => `${path}: no data source is provisioned for ${uid} (${type})`);
      }),
  );
});

test('the addresses and passwords of the data sources and of Prometheus are containers and variables of docker-compose.yml', () => {
  const { grafana } = services;
  const { scrape_configs: jobs, alerting } = parse(textOf(`${MONITORING}/prometheus.yaml`));
  const targets: string[] = [...jobs, ...alerting.alertmanagers].flatMap(
    ({ static_configs: [{ targets }] }) => targets,
  );
  const hosts = [
    ...targets.map((target) => target.split(':')[0] ?? ''),
    ...sources.map(({ url, jsonData }) =>
      url === undefined ? (jsonData?.host ?? '') : new URL(url).hostname,
    ),
  ];
  expect(hosts).toHaveLength(7);
  expect(hosts.filter((host) => !(host in services))).toEqual([]);
  const variables = textOf(`${MONITORING}/grafana/datasources.yaml`).match(/\$[A-Z_]+/g) ?? [];
  expect(variables.map((name) => name.slice(1))).toEqual(['CLICKHOUSE_READER_PASSWORD']);
  expect(Object.keys(grafana.environment ?? {})).toContain('CLICKHOUSE_READER_PASSWORD');
});
