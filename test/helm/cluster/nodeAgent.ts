/**
 * Replaces the kubelet of all nodes: runs the containers of pods as processes, checks the probes, and reports the status of the
 * pods. The pods share the files and the network of this machine, and each pod has its own loopback address.
 */
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { bugsIn } from '../../e2e/product.ts';
import { preStopSeconds, type Pod as Running, runContainer, type Secrets } from '../containers.ts';
import type { KubernetesObject } from '../render.ts';
import type { ControlPlane } from './controlPlane.ts';

/** A moment in the life of a pod. */
export interface PodEvent {
  readonly component: string;
  readonly tag: string;
  readonly what: 'started' | 'stopping' | 'ended';
}

export interface AgentOptions {
  /** The only folder that the processes can write to. */
  readonly folder: string;
  /** Folders with the sources of each tag of the image. Containers of other tags succeed, and are ready, without a process. */
  readonly sources: Readonly<Record<string, string>>;
}

const POLL_MS = 200;
const COMPONENT = 'app.kubernetes.io/component';

export class NodeAgent {
  /** Events of all pods, in their order. */
  readonly events: PodEvent[] = [];
  /** Failures of processes, as sentences. */
  readonly findings: string[] = [];
  readonly #cluster: ControlPlane;
  readonly #options: AgentOptions;
  readonly #deletions = new Map<string, PromiseWithResolvers<void>>();
  readonly #children = new Set<Running['child']>();
  #isStopping = false;
  #lastAddress = 1;

  constructor(cluster: ControlPlane, options: AgentOptions) {
    this.#cluster = cluster;
    this.#options = options;
  }

  /** Registers nodes, and runs the pods on them until `stop`. */
  async start(nodes: readonly string[]): Promise<void> {
    const amount = { cpu: '32', memory: '64Gi', 'ephemeral-storage': '100Gi', pods: '110' };
    for (const name of nodes) {
      const labels = { 'kubernetes.io/hostname': name, 'topology.kubernetes.io/zone': name };
      const conditions = [{ type: 'Ready', status: 'True', reason: 'Agent', message: '' }];
      await this.#cluster.api('/api/v1/nodes', 'POST', { kind: 'Node', metadata: { name, labels } });
      const status = { capacity: amount, allocatable: amount, conditions };
      await this.#cluster.api(`/api/v1/nodes/${name}/status`, 'PATCH', { status });
    }
    this.#run().catch((error: unknown) => {
      if (!this.#isStopping) this.findings.push(`the agent ended: ${error}`);
    });
  }

  stop(): void {
    this.#isStopping = true;
    for (const child of this.#children) child.kill('SIGKILL');
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      const { items } = await this.#cluster.api('/api/v1/pods');
      for (const pod of items) {
        if (pod.spec.nodeName === undefined) continue;
        const deletion = this.#deletions.get(pod.metadata.uid) ?? this.#begin(pod);
        if (pod.metadata.deletionTimestamp !== undefined) deletion.resolve();
      }
      await delay(POLL_MS);
    }
  }

  #begin(pod: KubernetesObject): PromiseWithResolvers<void> {
    const deletion = Promise.withResolvers<void>();
    this.#deletions.set(pod.metadata.uid, deletion);
    this.#live(pod, deletion.promise).catch((error: unknown) => {
      if (!this.#isStopping) this.findings.push(`${pod.metadata.name}: ${error}`);
    });
    return deletion;
  }

  async #live(pod: KubernetesObject, deleted: Promise<void>): Promise<void> {
    const { initContainers = [], containers, restartPolicy, terminationGracePeriodSeconds } = pod.spec;
    const host = ++this.#lastAddress;
    // The API server accepts no loopback address in an EndpointSlice.
    await this.#report(pod, 'Pending', { podIP: `10.244.0.${host}` });
    const env = { QUESTLOG_HOST: loopback(host), QUESTLOG_ADMIN_HOST: loopback(host) };
    const isDeleted = deleted.then(() => true);
    for (const container of initContainers)
      if (!(await this.#runToEnd(pod, container, deleted))) return await this.#remove(pod);
    const [container] = containers;
    if (restartPolicy === 'Never') {
      this.#note(pod, 'started');
      await this.#runToEnd(pod, container, deleted);
      this.#note(pod, 'ended');
      await this.#report(pod, 'Succeeded', {});
      await deleted;
      return await this.#remove(pod);
    }
    const running = await this.#start(pod, container, env);
    this.#note(pod, 'started');
    await this.#report(pod, 'Running', { isReady: false });
    let isReady: boolean = false;
    let failures = 0;
    const { readinessProbe } = container;
    const waitMs = () => (isReady ? 1_000 * readinessProbe.periodSeconds : POLL_MS);
    while (!(await Promise.race([isDeleted, delay(waitMs())]))) {
      const { child, output } = running ?? {};
      if (child !== undefined && child.exitCode !== null) throw new Error(`ended: ${output?.stderr}`);
      const hasPassed = child === undefined || (await isOk(loopback(host), readinessProbe));
      failures = hasPassed ? 0 : failures + 1;
      const isReadyNow: boolean = hasPassed || (isReady && failures < readinessProbe.failureThreshold);
      if (isReadyNow === isReady) continue;
      isReady = isReadyNow;
      await this.#report(pod, 'Running', { isReady });
    }
    this.#note(pod, 'stopping');
    if (running !== undefined) {
      const graceMs = 1_000 * (terminationGracePeriodSeconds - preStopSeconds(container));
      await delay(1_000 * preStopSeconds(container));
      await this.#end(pod, running, graceMs);
    }
    this.#note(pod, 'ended');
    await this.#remove(pod);
  }

  async #end({ metadata }: KubernetesObject, { child, output }: Running, graceMs: number): Promise<void> {
    const exit = once(child, 'exit');
    child.kill('SIGTERM');
    const ended = await Promise.race([exit, delay(graceMs)]);
    child.kill('SIGKILL');
    if (ended === undefined) this.findings.push(`${metadata.name} did not end within its grace period`);
    else if (ended[0] !== 0) this.findings.push(`${metadata.name} ended with ${ended[0]}: ${output.stderr}`);
    this.findings.push(...bugsIn(output.stderr));
  }

  /** Returns false if the pod is deleted before the container ends. @throws Error if the container fails */
  async #runToEnd(
    pod: KubernetesObject,
    container: KubernetesObject,
    deleted: Promise<void>,
  ): Promise<boolean> {
    const running = await this.#start(pod, container, {});
    if (running === undefined) return true;
    const ended = await Promise.race([once(running.child, 'exit'), deleted]);
    running.child.kill('SIGKILL');
    if (ended !== undefined && ended[0] !== 0)
      throw new Error(`${container.name} ended with ${ended[0]}: ${running.output.stderr}`);
    return ended !== undefined;
  }

  /** Returns undefined if the container has no sources. */
  async #start(
    { metadata, spec }: KubernetesObject,
    container: KubernetesObject,
    env: Readonly<Record<string, string>>,
  ): Promise<Running | undefined> {
    const root = this.#options.sources[tagOf(container)];
    if (root === undefined) return undefined;
    const secrets = await this.#secrets(metadata.namespace);
    const user = spec.securityContext.runAsUser;
    const running = runContainer(container, { user, secrets, folder: this.#options.folder, env, root });
    this.#children.add(running.child);
    running.child.once('exit', () => this.#children.delete(running.child));
    return running;
  }

  async #secrets(namespace: string): Promise<Secrets> {
    const { items } = await this.#cluster.api(`/api/v1/namespaces/${namespace}/secrets`);
    return Object.fromEntries(
      items.map(({ metadata, data }: KubernetesObject) => [
        metadata.name,
        Object.fromEntries(
          Object.entries(data).map(([key, value]) => [key, Buffer.from(`${value}`, 'base64').toString()]),
        ),
      ]),
    );
  }

  async #report(
    { metadata, spec }: KubernetesObject,
    phase: string,
    { podIP, isReady = false }: { podIP?: string; isReady?: boolean },
  ): Promise<void> {
    const now = new Date().toISOString();
    const container = ({ name, image }: KubernetesObject) => ({
      ...{ name, image, imageID: '', ready: isReady, restartCount: 0 },
      state: { running: { startedAt: now } },
    });
    const status = {
      phase,
      ...(podIP && { podIP, podIPs: [{ ip: podIP }], startTime: now }),
      conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False', lastTransitionTime: now }],
      ...(phase === 'Running' && { containerStatuses: spec.containers.map(container) }),
    };
    await this.#cluster.api(`${pathOf(metadata)}/status`, 'PATCH', { status });
  }

  async #remove({ metadata }: KubernetesObject): Promise<void> {
    const options = { gracePeriodSeconds: 0, preconditions: { uid: metadata.uid } };
    await this.#cluster.api(pathOf(metadata), 'DELETE', options).catch((error: Error) => {
      // The garbage collector can delete a pod of a finished Job before the agent does.
      if (!error.message.includes('"reason":"NotFound"')) throw error;
    });
  }

  #note({ metadata, spec }: KubernetesObject, what: PodEvent['what']): void {
    this.events.push({ component: metadata.labels[COMPONENT], tag: tagOf(spec.containers[0]), what });
  }
}

/** Returns the loopback address of the pod with the address `10.244.0.<host>`. */
export function loopback(host: number | string): string {
  return `127.244.0.${host}`;
}

function pathOf({ namespace, name }: KubernetesObject): string {
  return `/api/v1/namespaces/${namespace}/pods/${name}`;
}

function tagOf({ image }: KubernetesObject): string {
  return image.split(':').at(-1);
}

async function isOk(address: string, { httpGet }: KubernetesObject): Promise<boolean> {
  const url = `http://${address}:8081${httpGet.path}`;
  return await fetch(url, { signal: AbortSignal.timeout(5_000) }).then(
    ({ ok }) => ok,
    () => false,
  );
}
