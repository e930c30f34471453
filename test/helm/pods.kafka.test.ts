/**
 * Runs the containers of the rendered chart as processes with a real Kafka, registry, and ClickHouse: the command of the image,
 * the environment variables, the user, and a read-only disk.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { deleteTopics } from '@questlog/runtime/log/kafka/testing/deleteTopics';
import { describeKafka, type Engines } from '@questlog/runtime/log/kafka/testing/engines';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { confined, whyNotConfined } from '../e2e/confined.ts';
import { bugsIn, collectOutput, end, type Output } from '../e2e/product.ts';
import { ROOT } from '../tidy/projectFiles.ts';
import { type KubernetesObject, objectOf, render } from './render.ts';
import { ifAvailable, provideHelm } from './tools.ts';

const helm = await ifAvailable(provideHelm, (line) => console.warn(line));
const folder = mkdtempSync(join(tmpdir(), 'questlog-pods-'));
const unconfined = whyNotConfined(folder);
if (unconfined !== undefined) console.warn(`skipped: nothing can be confined here: ${unconfined}`);
const canRun = helm !== undefined && unconfined === undefined;
const READY_WITHIN_MS = 120_000;
const SERVICES = ['projector', 'linker', 'operations', 'ingest'] as const;

describeKafka('the pods of the Helm chart', (engines) => {
  const name = `helm_${randomUUID().slice(0, 8)}`;
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await deleteTopics(engines.brokers, `${name}.`);
    await clickhouse(engines, `DROP DATABASE IF EXISTS ${name}`);
  });

  test.skipIf(!canRun)(
    'migrate, get ready as restricted processes, and stop within their grace period',
    async () => {
      const objects = await render(helm ?? '', undefined, { values: valuesOf(engines, name) });
      const { securityContext } = objectOf(objects, 'Deployment', '-ingest').spec.template.spec;
      chownSync(folder, securityContext.runAsUser, securityContext.runAsUser);
      const secrets = secretsOf(engines);
      const run = (pod: KubernetesObject, container: KubernetesObject, ports: Ports): Pod =>
        runContainer(container, { user: pod.securityContext.runAsUser, secrets, ports });

      const job = objectOf(objects, 'Job', '-migrate').spec.template.spec;
      // A hook can run again after an upgrade that failed.
      for (const _ of ['install', 'upgrade']) await succeeds(run(job, job.containers[0], {}));
      expect(await clickhouse(engines, `EXISTS TABLE ${name}.events`)).toBe('1\n');
      for (const subject of readdirSync(join(ROOT, 'schemas/released'))) {
        const url = `${engines.registryUrl}/subjects/${name}.${subject}/versions/latest`;
        expect([subject, (await fetch(url)).status]).toEqual([subject, 200]);
      }

      const free = await freePorts(2 * SERVICES.length);
      const pods: { spec: KubernetesObject; pod: Pod; adminPort: number }[] = [];
      for (const [index, service] of SERVICES.entries()) {
        const { spec } = objectOf(objects, 'Deployment', `-${service}`).spec.template;
        for (const container of spec.initContainers ?? []) await succeeds(run(spec, container, {}));
        const [games = 0, adminPort = 0] = free.slice(2 * index);
        const pod = run(spec, spec.containers[0], { QUESTLOG_PORT: games, QUESTLOG_ADMIN_PORT: adminPort });
        pods.push({ spec, pod, adminPort });
        await getsReady(pod, spec.containers[0], adminPort);
      }

      for (const { spec, pod } of pods) {
        const graceMs = 1_000 * (spec.terminationGracePeriodSeconds - preStopSeconds(spec.containers[0]));
        const startedAtMs = performance.now();
        expect(await end(pod.child, 'SIGTERM'), pod.output.stderr).toBe(0);
        expect(performance.now() - startedAtMs).toBeLessThan(graceMs);
        expect(bugsIn(pod.output.stderr)).toEqual([]);
        expect(pod.output.stderr).not.toMatch(/EROFS|EACCES|EPERM|[Rr]ead-only file system/);
      }
    },
  );
});

type Ports = Readonly<Record<string, number>>;

interface Pod {
  readonly child: ChildProcess;
  readonly output: Output;
}

function valuesOf({ brokers, registryUrl, clickhouseUrl, s3 }: Engines, name: string): object {
  return {
    listenHost: '127.0.0.1',
    prefix: `${name}.`,
    partitions: 4,
    kafka: { brokers: brokers.split(','), replicationFactor: 1 },
    schemaRegistry: { url: registryUrl },
    clickhouse: {
      ...{ url: new URL(clickhouseUrl).origin, database: name, existingSecret: 'clickhouse' },
      reader: { existingSecret: 'reader' },
    },
    adminToken: { existingSecret: 'admin' },
    ...(s3 && { uploads: { store: 's3', bucket: s3.bucket, endpoint: s3.endpoint, existingSecret: 's3' } }),
  };
}

type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>;

function secretsOf({ clickhouseUrl, s3 }: Engines): Secrets {
  const { username, password, origin } = new URL(clickhouseUrl);
  return {
    clickhouse: { username: decodeURIComponent(username), password: decodeURIComponent(password) },
    reader: { url: origin.replace('://', `://reader:${password}@`) },
    admin: { 'admin-token': 'qla_of_the_tests_of_the_chart' },
    s3: { 'access-key-id': s3?.accessKeyId ?? '', 'secret-access-key': s3?.secretAccessKey ?? '' },
  };
}

const DOCKERFILE = readFileSync(join(ROOT, 'deploy/Dockerfile'), 'utf8');
const [, ...ENTRY]: string[] = JSON.parse(
  /^ENTRYPOINT (?<command>.*)$/m.exec(DOCKERFILE)?.groups?.['command'] ?? '[]',
);
const IMAGE_ENV = Object.fromEntries(
  [...DOCKERFILE.matchAll(/^ENV (?<pairs>.*)$/gm)].flatMap(({ groups }) =>
    (groups?.['pairs'] ?? '').split(' ').map((pair) => pair.split('=')),
  ),
);

/** @param ports ports that replace the ports of the pod, because all processes share one network here. */
function runContainer(
  container: KubernetesObject,
  { user, secrets, ports }: { user: number; secrets: Secrets; ports: Ports },
): Pod {
  const given = container.env.map(({ name, value, valueFrom }: KubernetesObject) => {
    const from = valueFrom?.secretKeyRef;
    return [name, from === undefined ? value : secrets[from.name]?.[from.key]];
  });
  const env = {
    ...{ PATH: process.env['PATH'], HOME: '/', TMPDIR: folder },
    ...IMAGE_ENV,
    ...Object.fromEntries(given),
    ...Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)])),
  };
  const command = confined(folder, user, [process.execPath, ...ENTRY, ...container.args]);
  const child = spawn('unshare', command, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return { child, output: collectOutput(child) };
}

async function succeeds({ child, output }: Pod): Promise<void> {
  const [code] = await once(child, 'exit');
  expect(code, output.stderr).toBe(0);
}

/** Waits until the probes of the container succeed. */
async function getsReady(
  { child, output }: Pod,
  container: KubernetesObject,
  adminPort: number,
): Promise<void> {
  for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
    const { path, port } = container[probe].httpGet;
    expect(port).toBe('admin');
    const status = () =>
      fetch(`http://127.0.0.1:${adminPort}${path}`).then(
        (answer) => answer.status,
        () => undefined,
      );
    await eventually(
      status,
      (code) => {
        if (child.exitCode !== null) throw new Error(`${container.name} has ended: ${output.stderr}`);
        return code === 200;
      },
      READY_WITHIN_MS,
    );
  }
  const memory = /^VmRSS:\s+(?<kib>\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.groups?.[
    'kib'
  ];
  console.log(`${container.name} is ready with ${Math.round(Number(memory) / 1024)} MiB`);
}

function preStopSeconds({ lifecycle }: KubernetesObject): number {
  return lifecycle?.preStop.sleep.seconds ?? 0;
}

async function clickhouse({ clickhouseUrl }: Engines, statement: string): Promise<string> {
  const { origin, username, password } = new URL(clickhouseUrl);
  const account = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const headers = { Authorization: `Basic ${Buffer.from(account).toString('base64')}` };
  const answer = await fetch(origin, { method: 'POST', headers, body: statement });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${statement}: ${text}`);
  return text;
}
