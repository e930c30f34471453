/** Renders the Helm chart, and checks the objects. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { settings } from '@questlog/questlog/config';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { manifestOf, ROOT } from '../tidy/projectFiles.ts';
import { chartReadme } from './chartReadme.ts';
import { CHART, EXAMPLES, KEDA, type KubernetesObject, OAUTH, objectOf, render, runHelm } from './render.ts';
import { ifAvailable, provideHelm } from './tools.ts';

const helm = (await ifAvailable(provideHelm, (line) => console.warn(line))) ?? '';
const { version: VERSION }: ReturnType<typeof manifestOf> & { version?: string } = manifestOf('');
const SERVICES = ['projector', 'linker', 'operations', 'ingest'] as const;
describe.skipIf(helm === '')('the Helm chart', () => {
  test('passes helm lint with each example', async () => {
    const values = EXAMPLES.map((name) => join(CHART, `examples/${name}.yaml`));
    for (const file of values) await runHelm(helm, ['lint', '--strict', CHART, '--values', file]);
  });

  test('helm-docs writes the README from its template and values.yaml', async () => {
    for (const [path, text] of Object.entries(await chartReadme())) {
      expect(readFileSync(join(ROOT, path), 'utf8')).toBe(text);
      expect(text).toContain('| partitions | int | `12` |');
      expect(text.split('## Values')[1], 'each value has a description').not.toMatch(/\|\s+\|$/m);
    }
  });

  test('a package contains the Prometheus rules and the dashboards', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'questlog-chart-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    await runHelm(helm, ['package', CHART, '--destination', folder]);
    execFileSync('tar', ['-xzf', `questlog-${VERSION}.tgz`], { cwd: folder });
    const objects = await render(helm, 'large');
    const packed = (path: string) => readFileSync(join(folder, 'questlog/files', path), 'utf8');
    const source = (path: string) => readFileSync(join(ROOT, 'deploy/monitoring', path), 'utf8');
    expect(packed('rules.yaml')).toBe(source('rules.yaml'));
    const { spec } = objectOf(objects, 'PrometheusRule', 'questlog');
    expect(spec.groups).toEqual(parse(source('rules.yaml')).groups);
    const dashboards = readdirSync(join(ROOT, 'deploy/monitoring/dashboards'));
    expect(dashboards.length).toBeGreaterThan(0);
    for (const name of dashboards) {
      expect(packed(`dashboards/${name}`)).toBe(source(`dashboards/${name}`));
      const { data } = objectOf(objects, 'ConfigMap', `-dashboard-${name.replace('.json', '')}`);
      expect(data).toEqual({ [name]: source(`dashboards/${name}`) });
    }
  });

  test('the first commands name the Services and the Secret of the release', async () => {
    const file = join(CHART, 'examples/small.yaml');
    const args = ['install', 'game-a', CHART, '--dry-run=client', '--namespace', 'game', '--values', file];
    const [, notes = ''] = (await runHelm(helm, args)).split('\nNOTES:\n');
    expect(notes).toContain(
      '-n game get secret questlog-admin-token -o go-template=\'{{index .data "admin-token" |',
    );
    expect(notes).toContain('-n game port-forward service/game-a-questlog-operations 8081:8081');
    expect(notes).toContain('http://game-a-questlog-ingest.game:80');
  });

  test.each([
    ['ingress.enabled=true,ingress.hosts={a.example}', true],
    ['ingress.enabled=true,ingress.hosts={a.example},ingest.trustedProxies=10.0.0.0/8', false],
    ['httpRoute.enabled=true,httpRoute.parentRefs[0].name=public', true],
  ])('with %s, the notes ask for the trusted proxies: %s', async (values, isAsked) => {
    const file = join(CHART, 'examples/small.yaml');
    const args = ['install', 'questlog', CHART, '--dry-run=client', '--values', file, '--set', values];
    const [, notes = ''] = (await runHelm(helm, args)).split('\nNOTES:\n');
    expect(notes.includes('ingest.trustedProxies')).toBe(isAsked);
  });
});

describe.skipIf(helm === '')('the objects of the Helm chart', () => {
  test('every pod is restricted, writes only to /tmp, and has no token', async () => {
    for (const example of EXAMPLES) {
      const pods = podsOf(await render(helm, example));
      expect(pods.length).toBe(5);
      for (const { spec } of pods) {
        expect(spec.securityContext).toMatchObject({
          runAsNonRoot: true,
          seccompProfile: { type: 'RuntimeDefault' },
        });
        expect([spec.automountServiceAccountToken, spec.enableServiceLinks]).toEqual([false, false]);
        for (const container of [...spec.containers, ...(spec.initContainers ?? [])]) {
          expect(container.securityContext).toEqual({
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          });
          const writable = container.volumeMounts.filter(({ readOnly }: { readOnly?: boolean }) => !readOnly);
          expect(writable).toEqual([{ name: 'tmp', mountPath: '/tmp' }]);
          expect(container.resources).toMatchObject({
            requests: { memory: expect.any(String) },
            limits: { memory: expect.any(String) },
          });
        }
      }
    }
  });

  test('a private certificate authority can be mounted in every container', async () => {
    const values = {
      extraEnv: [{ name: 'NODE_EXTRA_CA_CERTS', value: '/ca/ca.crt' }],
      extraVolumes: [{ name: 'ca', secret: { secretName: 's3-ca' } }],
      extraVolumeMounts: [{ name: 'ca', mountPath: '/ca', readOnly: true }],
    };
    for (const { spec } of podsOf(await render(helm, 'small', { values }))) {
      expect(spec.volumes).toContainEqual(values.extraVolumes[0]);
      for (const container of [...spec.containers, ...(spec.initContainers ?? [])]) {
        expect(container.volumeMounts).toContainEqual(values.extraVolumeMounts[0]);
        expect(container.env).toContainEqual(values.extraEnv[0]);
      }
    }
  });

  test('no password is in an object: each one refers to a Secret', async () => {
    for (const container of podsOf(await render(helm, 'existing-kafka')).flatMap(
      ({ spec }) => spec.containers,
    )) {
      const secret = container.env.filter(({ name }: { name: string }) =>
        /PASSWORD|TOKEN$|USERNAME|SECRET/.test(name),
      );
      expect(secret.length).toBeGreaterThanOrEqual(6);
      for (const { valueFrom } of secret) expect(valueFrom.secretKeyRef.name).toMatch(/^questlog-/);
    }
  });

  test('every environment variable is a setting of Questlog', async () => {
    const known = Object.values(settings.properties).map((property) => String(Reflect.get(property, 'env')));
    for (const example of EXAMPLES) {
      const names = podsOf(await render(helm, example))
        .flatMap(({ spec }) => [...spec.containers, ...(spec.initContainers ?? [])])
        .flatMap(({ env }) => env.map(({ name }: { name: string }) => name));
      expect(names.length).toBeGreaterThan(50);
      expect(names.filter((name) => !known.includes(name.replace(/_FILE$/, '')))).toEqual([]);
    }
  });

  test('liveness depends on /healthz, readiness on /readyz, and a stop has time for the drain', async () => {
    const objects = await render(helm, 'small');
    for (const name of SERVICES) {
      const { spec } = objectOf(objects, 'Deployment', `-${name}`).spec.template;
      const [container] = spec.containers;
      expect(container.livenessProbe.httpGet).toEqual({ path: '/healthz', port: 'admin' });
      expect(container.readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'admin' });
      const preStopSeconds = container.lifecycle?.preStop.sleep.seconds ?? 0;
      expect(spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(preStopSeconds + STOP_SECONDS);
      const isServed = ['operations', 'ingest'].includes(name);
      expect(preStopSeconds > 0, `${name} waits for the load balancers`).toBe(isServed);
    }
  });

  test('the pods start in the order of an upgrade or of a rollback, and after the migrations', async () => {
    const objects = await render(helm, 'small', { isUpgrade: true });
    const waits = SERVICES.map((name) => {
      const { initContainers = [] } = objectOf(objects, 'Deployment', `-${name}`).spec.template.spec;
      return initContainers.map(({ args }: { args: string[] }) => args.join(' '));
    });
    const all = ['wait-for-consumers projector linker'];
    expect(waits).toEqual([
      ['wait-for-writers ingest operations linker'],
      ['wait-for-consumers projector', 'wait-for-writers ingest operations'],
      all,
      all,
    ]);
    const { metadata, spec } = objectOf(objects, 'Job', '-migrate');
    expect(metadata.annotations['helm.sh/hook']).toBe('pre-install,pre-upgrade');
    expect(spec.template.spec.containers[0].args).toEqual(['migrate']);
  });

  test('waiting pods do not block the pods that they wait for on full nodes', async () => {
    const objects = await render(helm, 'existing-kafka');
    const strategies = SERVICES.map(
      (name) => objectOf(objects, 'Deployment', `-${name}`).spec.strategy.rollingUpdate,
    );
    const [replacesFirst, startsFirst] = [
      { maxSurge: 0, maxUnavailable: 1 },
      { maxSurge: 1, maxUnavailable: 0 },
    ];
    expect(strategies).toEqual([replacesFirst, replacesFirst, startsFirst, startsFirst]);
  });

  test.each([
    [{ replicas: 1 }],
    [{ replicas: 2, autoscaling: { enabled: true, minReplicas: 1, maxReplicas: 2 } }],
  ])('a single linker with %j works until its successor is ready', async (linker) => {
    const { spec } = objectOf(await render(helm, 'small', { values: { linker } }), 'Deployment', '-linker');
    expect(spec.strategy.rollingUpdate.maxUnavailable).toBe(0);
  });

  test('the network policy of the migrations has the ports of the new release', async () => {
    const objects = await render(helm, 'small', { isUpgrade: true });
    const policy = objectOf(objects, 'NetworkPolicy', '-migrate').metadata.annotations;
    const job = objectOf(objects, 'Job', '-migrate').metadata.annotations;
    expect(policy['helm.sh/hook']).toBe(job['helm.sh/hook']);
    expect(Number(policy['helm.sh/hook-weight'])).toBeLessThan(Number(job['helm.sh/hook-weight'] ?? 0));
  });

  test('helm does not end a wait for the migrations while they run', async () => {
    const { spec } = objectOf(await render(helm, 'small'), 'Job', '-migrate');
    expect(spec.activeDeadlineSeconds).toBeLessThan(HELM_TIMEOUT_SECONDS);
  });

  test('the limit of a disruption budget can be minAvailable', async () => {
    const values = { ingest: { podDisruptionBudget: { minAvailable: 1 } } };
    const { spec } = objectOf(await render(helm, 'small', { values }), 'PodDisruptionBudget', '-ingest');
    expect(spec).toMatchObject({ minAvailable: 1 });
    expect(spec).not.toHaveProperty('maxUnavailable');
  });

  test('the listener for operators is never published', async () => {
    const published = {
      ingress: { enabled: true, hosts: ['a.example'] },
      httpRoute: { enabled: true, parentRefs: [{ name: 'public' }] },
      ingest: { service: { type: 'LoadBalancer' } },
    };
    const objects = await render(helm, 'small', { values: published });
    const routes = objects.filter(({ kind }) => ['Ingress', 'HTTPRoute'].includes(kind));
    expect(routes.length).toBe(2);
    expect(JSON.stringify(routes)).not.toContain('operations');
    expect(objectOf(objects, 'Service', '-operations').spec.type).toBe('ClusterIP');
    const policies = objects.filter(({ kind }) => kind === 'NetworkPolicy');
    expect(policies.length).toBe(5);
    const open = policies.filter(({ spec }) => JSON.stringify(spec.ingress).includes('admin'));
    expect(open).toEqual([]);
  });

  test('operators can reach operations by the names of its Service', async () => {
    const values = { operations: { allowedHosts: 'ops.example.com' } };
    const { spec } = objectOf(await render(helm, 'small', { values }), 'Deployment', '-operations').spec
      .template;
    const { value } = spec.containers[0].env.find(
      ({ name }: { name: string }) => name === 'QUESTLOG_ADMIN_ALLOWED_HOSTS',
    );
    expect(value.split(',')).toEqual([
      'questlog-operations',
      'questlog-operations.game',
      'questlog-operations.game.svc',
      'ops.example.com',
    ]);
  });

  test('the pods can reach the ports of all addresses', async () => {
    const values = {
      clickhouse: { url: 'https://a.example:8443,https://b.example:9443, https://c.example' },
    };
    const objects = await render(helm, 'existing-kafka', { values });
    const { spec } = objectOf(objects, 'NetworkPolicy', '-projector');
    const ports = spec.egress.flatMap(({ ports }: KubernetesObject) =>
      ports.map(({ port }: KubernetesObject) => port),
    );
    expect(ports).toEqual([53, 53, 9094, 443, 8443, 9443]);
  });

  test('KEDA scales linkers and projectors by the lag of their groups', async () => {
    const objects = await render(helm, 'large');
    const triggers = ['linker', 'projector'].flatMap((name) =>
      objectOf(objects, 'ScaledObject', `-${name}`).spec.triggers.map(({ metadata }: KubernetesObject) => [
        metadata.consumerGroup,
        metadata.topic,
      ]),
    );
    expect(triggers).toEqual([
      [GROUPS.link, TOPICS.events],
      [GROUPS.link, TOPICS.reportLinks],
      [GROUPS.projectEvents, TOPICS.events],
      [GROUPS.projectSessions, TOPICS.sessions],
      [GROUPS.projectReports, TOPICS.reportLinks],
      [GROUPS.projectLinks, TOPICS.linkedEvents],
    ]);
    const [trigger] = objectOf(objects, 'ScaledObject', '-ingest').spec.triggers;
    expect([trigger.type, trigger.metadata]).toEqual(['cpu', { value: '70' }]);
    expect(objectOf(objects, 'Deployment', '-linker').spec).not.toHaveProperty('replicas');
  });

  test('KEDA reads the lag with the credentials and the prefix of the deployment', async () => {
    const values = { linker: { autoscaling: { enabled: true } } };
    const objects = await render(helm, 'existing-kafka', { ...KEDA, values });
    const [trigger] = objectOf(objects, 'ScaledObject', '-linker').spec.triggers;
    expect(trigger.metadata).toMatchObject({
      consumerGroup: `game-a.${GROUPS.link}`,
      topic: `game-a.${TOPICS.events}`,
      sasl: 'scram_sha512',
      tls: 'enable',
      version: '2.7.0',
    });
    const { metadata, spec } = objectOf(objects, 'TriggerAuthentication', '-kafka');
    expect(trigger.authenticationRef.name).toBe(metadata.name);
    expect(spec.secretTargetRef.map(({ parameter }: KubernetesObject) => parameter)).toEqual([
      'username',
      'password',
      'ca',
    ]);
  });

  test('KEDA reads the address and the scope of OAUTHBEARER from the variables of the container', async () => {
    const values = { kafka: { sasl: OAUTH }, projector: { autoscaling: { enabled: true } } };
    const objects = await render(helm, 'existing-kafka', { ...KEDA, values });
    const { env } = objectOf(objects, 'TriggerAuthentication', '-kafka').spec;
    const [container] = objectOf(objects, 'Deployment', '-projector').spec.template.spec.containers;
    const variable = (name: string) =>
      container.env.find((entry: { name: string }) => entry.name === name).value;
    const parameters = env.map(({ parameter, name }: KubernetesObject) => [parameter, variable(name)]);
    expect(parameters).toEqual([
      ['oauthTokenEndpointUri', OAUTH.tokenUrl],
      ['scopes', OAUTH.scope],
    ]);
  });

  test.each(['linker', 'projector'])('a %s never scales above the number of partitions', async (name) => {
    const partitions = 6;
    const limits = async (maxReplicas: number): Promise<number[]> => {
      const values = { partitions, [name]: { autoscaling: { enabled: true, maxReplicas } } };
      const [scaled, autoscaler] = await Promise.all([
        render(helm, 'small', { values, ...KEDA }),
        render(helm, 'small', { values }),
      ]);
      return [
        objectOf(scaled, 'ScaledObject', `-${name}`).spec.maxReplicaCount,
        objectOf(autoscaler, 'HorizontalPodAutoscaler', `-${name}`).spec.maxReplicas,
      ];
    };
    expect(await limits(partitions)).toEqual([partitions, partitions]);
    const message = `${name}.autoscaling.maxReplicas: ${partitions + 1} is more than partitions (${partitions})`;
    await expect(limits(partitions + 1)).rejects.toThrow(message);
  });

  test('a HorizontalPodAutoscaler replaces KEDA if the cluster has no KEDA', async () => {
    const values = {
      ingest: { autoscaling: { enabled: true } },
      projector: { autoscaling: { enabled: true, maxReplicas: 4 } },
    };
    const kinds = async (options: object): Promise<string[]> =>
      (await render(helm, 'small', { values, ...options }))
        .map(({ kind }) => kind)
        .filter((kind) => /ScaledObject|Autoscaler/.test(kind));
    expect(await kinds({})).toEqual(['HorizontalPodAutoscaler', 'HorizontalPodAutoscaler']);
    expect(await kinds(KEDA)).toEqual(['ScaledObject', 'ScaledObject']);
  });
});

/** Maximum time in seconds until a process has ended after SIGTERM. */
const STOP_SECONDS = 15;
/** Default of `helm --timeout`. */
const HELM_TIMEOUT_SECONDS = 300;

function podsOf(objects: readonly KubernetesObject[]): KubernetesObject[] {
  return objects.filter(({ kind }) => ['Deployment', 'Job'].includes(kind)).map(({ spec }) => spec.template);
}
