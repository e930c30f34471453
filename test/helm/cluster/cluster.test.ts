/**
 * Installs, upgrades, and rolls back the Helm chart with a real control plane of Kubernetes, and drains nodes, while clients send
 * events. `nodeAgent.ts` runs the pods as processes, with a real Kafka, registry, and ClickHouse.
 */
import { once } from 'node:events';
import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { failIfRequired, requiredNames } from '@questlog/runtime/process/testing/required';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { auditDeployment } from '../../cluster/auditDeployment.ts';
import { startTrial } from '../../cluster/trial.ts';
import { eventually } from '../../e2e/builders.ts';
import { whyNotConfined } from '../../e2e/confined.ts';
import { seedOfRun } from '../../faults/seeded.ts';
import { copiedTree } from '../../mutation/copiedTree.ts';
import { ROOT } from '../../tidy/projectFiles.ts';
import { CHART, EXAMPLES, type KubernetesObject } from '../render.ts';
import { provideCheckers, provideHelm } from '../tools.ts';
import { buildControlPlane, ControlPlane, isControlPlaneBuilt, KUBERNETES } from './controlPlane.ts';
import { createNamespace, HelmDeployment, slicesOf, WAIT } from './helmDeployment.ts';
import { NodeAgent, type PodEvent } from './nodeAgent.ts';

const folder = mkdtempSync(join(tmpdir(), 'questlog-pods-'));
const lack = whyNotRunnable();
if (lack !== undefined) {
  failIfRequired('kubernetes', lack);
  console.warn(`skipped: no control plane of Kubernetes ${KUBERNETES}: ${lack}`);
}

const NODES = ['node-1', 'node-2', 'node-3'];
/** Node for the pods of all other nodes. Gets no pods before these nodes are drained. */
const SPARE_NODE = 'node-4';
const SERVICES = ['projector', 'linker', 'operations', 'ingest'] as const;
const COMPONENT = 'app.kubernetes.io/component';
/** Tag of a copy of the sources whose records have a newer version. */
const NEXT = 'next';
const VERSION = '0.1.0';
const WITHIN_MS = 3_600_000;
const SETTLED_WITHIN_MS = 120_000;

describe.skipIf(lack !== undefined)('the Helm chart on a control plane of Kubernetes', () => {
  let cluster: ControlPlane;
  let agent: NodeAgent;
  let metrics: Server;
  const next = lack === undefined ? copyWithNewRecords() : '';

  beforeAll(async () => {
    if (!isControlPlaneBuilt()) buildControlPlane();
    cluster = new ControlPlane(provideHelm());
    agent = new NodeAgent(cluster, { folder, sources: { [VERSION]: ROOT, [NEXT]: next } });
    chownSync(folder, 10_001, 10_001);
    await cluster.start();
    await agent.start([...NODES, SPARE_NODE]);
    await cluster.kubectl('cordon', SPARE_NODE);
    const { definitions } = await provideCheckers();
    for (const path of definitions) await cluster.kubectl('apply', '--server-side', '--filename', path);
    metrics = await serveMetrics(cluster);
  }, WITHIN_MS);
  afterAll(async () => {
    agent?.stop();
    metrics?.close();
    await cluster?.stop();
    for (const path of [folder, next]) rmSync(path, { recursive: true, force: true });
  });

  test.each(EXAMPLES)('the API server accepts the example %s with restricted pods', async (example) => {
    const namespace = `example-${example}`;
    await createNamespace(cluster, namespace);
    const begin = agent.events.length;
    const file = join(CHART, `examples/${example}.yaml`);
    const install = ['install', 'questlog', CHART, '-n', namespace, '--values', file, ...WAIT];
    const output = await cluster.helm(install, { image: { tag: 'simulated' } });
    expect(output).not.toMatch(/warn|unknown field|deprecated/i);
    expect(agent.events.slice(begin, begin + 3).map(({ component, what }) => [component, what])).toEqual([
      ['migrate', 'started'],
      ['migrate', 'ended'],
      [expect.stringMatching(/^(projector|linker|operations|ingest)$/), 'started'],
    ]);
    await expectSelections(cluster, namespace);
    await cluster.helm(['uninstall', 'questlog', '-n', namespace, ...WAIT]);
  });

  test('the API server rejects a pod that is not restricted', async () => {
    const run = cluster.kubectl('-n', 'example-small', 'run', 'root', '--image=root:1');
    await expect(run).rejects.toThrow(/violates PodSecurity "restricted/);
  });

  test('the HorizontalPodAutoscalers scale by the CPU of a simulated metrics server', async () => {
    const namespace = 'autoscaled';
    await createNamespace(cluster, namespace);
    const file = join(CHART, 'examples/large.yaml');
    const scaled = (minReplicas: number) => ({ autoscaling: { minReplicas, maxReplicas: minReplicas + 1 } });
    const values = {
      image: { tag: 'simulated' },
      autoscaling: { kind: 'hpa' },
      ...{ ingest: scaled(2), linker: scaled(2), projector: scaled(2) },
    };
    await cluster.helm(['install', 'questlog', CHART, '-n', namespace, '--values', file, ...WAIT], values);
    const replicas = async () => {
      const { items } = await cluster.api(`/apis/apps/v1/namespaces/${namespace}/deployments`);
      return items
        .map(({ metadata, status }: KubernetesObject) => [metadata.name, status.readyReplicas])
        .sort();
    };
    const all = [
      ['ingest', 3],
      ['linker', 3],
      ['operations', 2],
      ['projector', 3],
    ];
    const expected = JSON.stringify(all.map(([name, count]) => [`questlog-${name}`, count]));
    await eventually(replicas, (found) => JSON.stringify(found) === expected, SETTLED_WITHIN_MS);
    await cluster.helm(['uninstall', 'questlog', '-n', namespace, ...WAIT]);
  });

  describeKafka('under load', (engines) => {
    test(
      'an upgrade, drains of all nodes, and a rollback answer all requests and lose no event',
      async () => {
        const deployment = new HelmDeployment(engines, cluster);
        const trial = await startTrial(engines, SERVICES, seedOfRun(), { own: deployment });
        onTestFinished(() => trial.end());
        await expectSelections(cluster, deployment.namespace);
        /** Returns the responses with the status 503. */
        const step = async (name: string, work: () => Promise<unknown>): Promise<string[]> => {
          const startMs = performance.now();
          await work();
          await trial.waitForProgress();
          const { unanswered, slowestMs, lastFailure } = trial.load;
          const refusals = deployment.refusals.splice(0);
          const seconds = Math.round((performance.now() - startMs) / 1_000);
          console.log(
            `${name}: ${seconds} s; the slowest request took ${Math.round(slowestMs)} ms; ${refusals.length} × 503 ${refusals}`,
          );
          expect([unanswered, lastFailure, agent.findings]).toEqual([0, '', []]);
          return refusals;
        };
        const begin = agent.events.length;
        await step('upgrade', () => deployment.upgrade({ image: { tag: NEXT } }));
        expectOrder(agent.events.slice(begin), NEXT, {
          linker: ['projector'],
          operations: ['projector', 'linker'],
          ingest: ['projector', 'linker'],
        });
        const refusals = await step('drain', async () => {
          await cluster.kubectl('uncordon', SPARE_NODE);
          const drain = (node: string) => cluster.kubectl('drain', node, '--delete-emptydir-data');
          const drained = Promise.all(NODES.map(drain));
          expect(await budgetViolations(deployment, drained)).toEqual([]);
          // kubectl prints each eviction that a budget rejects, and repeats the eviction later.
          expect((await drained).join()).toContain('would violate');
        });
        expect(refusals).toEqual([]);
        await cluster.kubectl('uncordon', ...NODES);
        const end = agent.events.length;
        await step('rollback', () => deployment.rollBack());
        expectOrder(agent.events.slice(end), VERSION, {
          linker: ['ingest', 'operations'],
          projector: ['ingest', 'operations', 'linker'],
        });
        const { items } = await cluster.api(`/api/v1/namespaces/${deployment.namespace}/pods`);
        const images = items.map(({ spec }: KubernetesObject) => spec.containers[0].image);
        expect(images.filter((image: string) => image.endsWith(NEXT))).toEqual([]);
        await trial.settle();
        const { findings, events, links } = await auditDeployment(deployment, trial.load);
        console.log(`${events} events, ${links} links`);
        expect([...findings, ...agent.findings]).toEqual([]);
      },
      WITHIN_MS,
    );
  });
});

/** Returns the reason if this machine cannot run the tests. Without a request, the tests do not build for minutes. */
function whyNotRunnable(): string | undefined {
  if (!isControlPlaneBuilt() && !requiredNames().includes('kubernetes'))
    return 'the build takes minutes; run `npm run test:kubernetes`';
  return whyNotConfined(folder);
}

/** Copies the sources, and gives the records of the copy a newer version. */
function copyWithNewRecords(): string {
  const copy = copiedTree();
  chmodSync(copy, 0o755);
  const path = join(copy, 'schemas/src/topics/topics.ts');
  const text = readFileSync(path, 'utf8').replace(
    /(?<=RECORDS_VERSION = )\d+/,
    (version) => `${Number(version) + 1}`,
  );
  writeFileSync(path, text);
  return copy;
}

/** Simulates a metrics server: each container uses twice its requested CPU. */
async function serveMetrics(cluster: ControlPlane): Promise<Server> {
  const answerOf = async (url: string): Promise<object> => {
    const resource = {
      name: 'pods',
      singularName: '',
      namespaced: true,
      kind: 'PodMetrics',
      verbs: ['list'],
    };
    const kind = { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: 'metrics.k8s.io/v1beta1' };
    const namespace = /namespaces\/(?<name>[^/]+)\/pods/.exec(url)?.groups?.['name'];
    if (namespace === undefined) return { ...kind, resources: [resource] };
    const { items } = await cluster.api(`/api/v1/namespaces/${namespace}/pods`);
    return {
      ...{ kind: 'PodMetricsList', apiVersion: 'metrics.k8s.io/v1beta1' },
      items: items.map(({ metadata, spec }: KubernetesObject) => ({
        ...{
          metadata: { name: metadata.name, namespace },
          timestamp: new Date().toISOString(),
          window: '10s',
        },
        containers: spec.containers.map(({ name }: KubernetesObject) => ({
          name,
          usage: { cpu: '2', memory: '1Mi' },
        })),
      })),
    };
  };
  const server = createServer(cluster.certificate(), (request, response) => {
    response.setHeader('Content-Type', 'application/json');
    answerOf(request.url ?? '').then(
      (answer) => response.end(JSON.stringify(answer)),
      // The API server can repeat a request while the control plane stops.
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const metadata = { name: 'metrics-server', namespace: 'kube-system' };
  const spec = { type: 'ExternalName', externalName: 'localhost', ports: [{ port }] };
  await cluster.apply(
    { apiVersion: 'v1', kind: 'Service', metadata, spec },
    {
      ...{
        apiVersion: 'apiregistration.k8s.io/v1',
        kind: 'APIService',
        metadata: { name: 'v1beta1.metrics.k8s.io' },
      },
      spec: {
        ...{ group: 'metrics.k8s.io', version: 'v1beta1', groupPriorityMinimum: 100, versionPriority: 100 },
        ...{ service: { ...metadata, port }, insecureSkipTLSVerify: true },
      },
    },
  );
  return server;
}

/** Checks that each Service, network policy, and disruption budget selects the pods of its component. */
async function expectSelections(cluster: ControlPlane, namespace: string): Promise<void> {
  const list = async (path: string): Promise<KubernetesObject[]> => (await cluster.api(path)).items;
  const pods = `/api/v1/namespaces/${namespace}/pods`;
  const all = await list(pods);
  const namesOf = (objects: readonly KubernetesObject[]) =>
    objects.map(({ metadata }) => metadata.name).sort();
  const podsOf = ({ metadata }: KubernetesObject) => {
    const component = metadata.labels[COMPONENT];
    const own = all.filter(
      ({ metadata: { labels } }) => component === 'metrics' || labels[COMPONENT] === component,
    );
    expect(own.length).toBeGreaterThan(0);
    return namesOf(own);
  };
  for (const service of await list(`/api/v1/namespaces/${namespace}/services`)) {
    const slices = await slicesOf(cluster, namespace, service.metadata.name);
    const targets = slices.flatMap(({ endpoints }) =>
      endpoints.map(({ targetRef }: KubernetesObject) => targetRef.name),
    );
    expect([service.metadata.name, targets.sort()]).toEqual([service.metadata.name, podsOf(service)]);
  }
  const policies = await list(`/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`);
  expect(policies.length).toBe(SERVICES.length);
  const budgets = await list(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`);
  expect(budgets.length).toBe(SERVICES.length);
  for (const item of [...policies, ...budgets]) {
    const { matchLabels } = item.spec.podSelector ?? item.spec.selector;
    const selector = Object.entries(matchLabels)
      .map(([name, value]) => `${name}=${value}`)
      .join(',');
    const selected = await list(`${pods}?labelSelector=${encodeURIComponent(selector)}`);
    expect([item.metadata.name, namesOf(selected)]).toEqual([item.metadata.name, podsOf(item)]);
  }
}

/** Compares the ready pods with the disruption budgets until the work ends. Returns violations as sentences. */
async function budgetViolations(
  { cluster, namespace }: HelmDeployment,
  work: Promise<unknown>,
): Promise<string[]> {
  const found = new Set<string>();
  let isOver = false;
  const compare = async (): Promise<boolean> => {
    const budgets = await cluster.api(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`);
    const pods = await cluster.api(`/api/v1/namespaces/${namespace}/pods`);
    for (const { metadata, status } of budgets.items) {
      const ready = pods.items.filter(
        (pod: KubernetesObject) =>
          pod.metadata.labels[COMPONENT] === metadata.labels[COMPONENT] &&
          pod.metadata.deletionTimestamp === undefined &&
          pod.status.conditions?.some(
            ({ type, status: is }: KubernetesObject) => type === 'Ready' && is === 'True',
          ),
      );
      if (ready.length < status.desiredHealthy)
        found.add(`${metadata.name}: ${ready.length} of ${status.desiredHealthy} pods are ready`);
    }
    return isOver;
  };
  const end = work.finally(() => {
    isOver = true;
  });
  await Promise.all([end, eventually(compare, Boolean, Number.POSITIVE_INFINITY)]);
  return [...found];
}

/** Checks that the pods of a version start after the last pod of the other version has stopped, for the services of each component. */
function expectOrder(
  events: readonly PodEvent[],
  tag: string,
  servicesBefore: Readonly<Record<string, readonly string[]>>,
): void {
  const stops = (component: string) =>
    events.flatMap(({ what, ...event }, at) =>
      what === 'stopping' && event.component === component && event.tag !== tag ? at : [],
    );
  for (const [component, services] of Object.entries(servicesBefore)) {
    const start = events.findIndex(
      ({ what, ...event }) => what === 'started' && event.component === component && event.tag === tag,
    );
    const lastStop = Math.max(...services.flatMap(stops));
    expect([component, start > lastStop]).toEqual([component, true]);
  }
}
