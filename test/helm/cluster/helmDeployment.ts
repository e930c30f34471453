/** A deployment of Questlog whose processes are the pods of a release of the chart. */
import type { Service, ServiceName } from '../../cluster/deployment.ts';
import { Deployment } from '../../cluster/deployment.ts';
import { eventually } from '../../e2e/builders.ts';
import type { ClusterEngines } from '../../e2e/cluster.ts';
import { type Answer, hasReadDirectory, type RequestOptions, send } from '../../e2e/product.ts';
import { secretsOf, valuesOf } from '../containers.ts';
import { CHART, type KubernetesObject } from '../render.ts';
import type { ControlPlane } from './controlPlane.ts';
import { loopback } from './nodeAgent.ts';

/** Flags with which helm waits until the objects are ready. */
export const WAIT = ['--wait', '--timeout', '15m'];

export class HelmDeployment extends Deployment {
  readonly namespace = 'game';
  readonly cluster: ControlPlane;
  /** Responses with the status 503, as `<request>: <body>`. */
  readonly refusals: string[] = [];
  #isOver = false;
  #polling: Promise<unknown> | undefined;
  readonly #urls: Record<string, readonly string[]> = {};

  constructor(engines: ClusterEngines, cluster: ControlPlane) {
    super(engines);
    this.cluster = cluster;
  }

  override async startAll(): Promise<Service[]> {
    await createNamespace(this.cluster, this.namespace);
    const secrets = Object.entries(secretsOf(this.engines)).map(([name, stringData]) => ({
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: this.namespace }, stringData },
    }));
    await this.cluster.apply(...secrets);
    await this.#helm(['install', 'questlog', CHART], {});
    await this.#readEndpoints();
    const poll = () => this.#readEndpoints().then(() => this.#isOver);
    this.#polling = eventually(poll, Boolean, Number.POSITIVE_INFINITY);
    return [];
  }

  async upgrade(values: object): Promise<void> {
    await this.#helm(['upgrade', 'questlog', CHART], values);
  }

  async rollBack(): Promise<void> {
    await this.#helm(['rollback', 'questlog', '1'], {});
  }

  /** Returns the endpoints of the Service. They have no process id, because Kubernetes starts and stops the processes. */
  override running(name: ServiceName): Service[] {
    const [operations] = this.#urls['operations'] ?? [];
    const token = secretsOf(this.engines)['admin']?.['admin-token'] ?? '';
    return (this.#urls[name] ?? []).map((url) => {
      const request = (method: string, path: string, options?: RequestOptions): Promise<Answer> =>
        send(url + path, method, '', options);
      const admin = async (method: string, path: string, body?: unknown): Promise<Answer> => {
        const answer = await send(operations + path, method, token, { body });
        if (name === 'ingest') await hasReadDirectory(url.replace(':8080', ':8081'), operations ?? '');
        return answer;
      };
      return { name, request, admin } as Service;
    });
  }

  override async request(method: string, path: string, options?: RequestOptions): Promise<Answer> {
    const answer = await super.request(method, path, options);
    if (answer.status === 503) this.refusals.push(`${method} ${path}: ${answer.text()}`);
    return answer;
  }

  override async stop(): Promise<(number | null)[]> {
    await this.#helm(['uninstall', 'questlog'], {});
    return [];
  }

  override async remove(): Promise<void> {
    this.#isOver = true;
    await this.#polling;
    await super.remove();
  }

  async #helm(args: readonly string[], values: object): Promise<void> {
    const all = { ...valuesOf(this.engines, this.name), ...values };
    await this.cluster.helm([...args, '-n', this.namespace, ...WAIT], all);
  }

  /** Reads the endpoints like a load balancer, which sends no requests to pods that are not ready. */
  async #readEndpoints(): Promise<void> {
    for (const name of ['ingest', 'operations']) {
      const slices = await slicesOf(this.cluster, this.namespace, `questlog-${name}`);
      this.#urls[name] = slices.flatMap(({ endpoints, ports }) =>
        (endpoints ?? [])
          .filter(({ conditions }: KubernetesObject) => conditions.ready)
          .map(
            ({ addresses }: KubernetesObject) =>
              `http://${loopback(addresses[0].split('.').at(-1))}:${ports[0].port}`,
          ),
      );
    }
  }
}

/** Creates a namespace that accepts only restricted pods. */
export async function createNamespace(cluster: ControlPlane, name: string): Promise<void> {
  const level = 'pod-security.kubernetes.io';
  const labels = { [`${level}/enforce`]: 'restricted', [`${level}/warn`]: 'restricted' };
  await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
  const accounts = () => cluster.kubectl('-n', name, 'get', 'serviceaccount', 'default').catch(() => '');
  await eventually(accounts, Boolean);
}

/** Returns the EndpointSlices of a Service. */
export async function slicesOf(
  cluster: ControlPlane,
  namespace: string,
  service: string,
): Promise<KubernetesObject[]> {
  const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
  return (await cluster.api(`${path}?labelSelector=kubernetes.io/service-name=${service}`)).items;
}
