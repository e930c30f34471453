/** Runs the containers of the rendered chart as processes with a real Kafka, registry, and ClickHouse. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { deleteTopics } from '@questlog/runtime/log/kafka/testing/deleteTopics';
import { describeKafka, type Engines } from '@questlog/runtime/log/kafka/testing/engines';
import { openGroupView } from '@questlog/runtime/log/kafka/testing/groupMembers';
import { WRITERS_GROUP } from '@questlog/schemas/topics/topics';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { whyNotConfined } from '../e2e/confined.ts';
import { bugsIn, end } from '../e2e/product.ts';
import { ROOT } from '../tidy/projectFiles.ts';
import { type Pod, preStopSeconds, runContainer, secretsOf, valuesOf } from './containers.ts';
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
      const run = (pod: KubernetesObject, container: KubernetesObject, env = {}): Pod => {
        const running = runContainer(container, {
          user: pod.securityContext.runAsUser,
          secrets,
          folder,
          env,
        });
        onTestFinished(() => void running.child.kill('SIGKILL'));
        return running;
      };

      const job = objectOf(objects, 'Job', '-migrate').spec.template.spec;
      // A hook can run again after an upgrade that failed.
      for (const _ of ['install', 'upgrade']) await succeeds(run(job, job.containers[0]));
      expect(await clickhouse(engines, `EXISTS TABLE ${name}.events`)).toBe('1\n');
      for (const subject of readdirSync(join(ROOT, 'schemas/released'))) {
        const url = `${engines.registryUrl}/subjects/${name}.${subject}/versions/latest`;
        expect([subject, (await fetch(url)).status]).toEqual([subject, 200]);
      }

      const free = await freePorts(2 * SERVICES.length);
      const pods: { spec: KubernetesObject; pod: Pod; adminPort: number }[] = [];
      for (const [index, service] of SERVICES.entries()) {
        const { spec } = objectOf(objects, 'Deployment', `-${service}`).spec.template;
        for (const container of spec.initContainers ?? []) await succeeds(run(spec, container));
        const [games = 0, adminPort = 0] = free.slice(2 * index);
        const ports = { QUESTLOG_PORT: `${games}`, QUESTLOG_ADMIN_PORT: `${adminPort}` };
        const pod = run(spec, spec.containers[0], ports);
        pods.push({ spec, pod, adminPort });
        await getsReady(pod, spec.containers[0], adminPort);
      }
      // During a rollback, the pods of linkers and projectors wait until these members have left.
      const view = await openGroupView(engines.brokers);
      onTestFinished(() => view.close());
      const writers = () => view.members(`${name}.${WRITERS_GROUP}`);
      await eventually(writers, (members) => members?.size === ['operations', 'ingest'].length);

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

async function clickhouse({ clickhouseUrl }: Engines, statement: string): Promise<string> {
  const { origin, username, password } = new URL(clickhouseUrl);
  const account = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const headers = { Authorization: `Basic ${Buffer.from(account).toString('base64')}` };
  const answer = await fetch(origin, { method: 'POST', headers, body: statement });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${statement}: ${text}`);
  return text;
}
