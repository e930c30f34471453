/** Builds and starts the control plane of Kubernetes: etcd, the API server, the controllers, and the scheduler. */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { eventually } from '../../e2e/builders.ts';
import { end } from '../../e2e/product.ts';
import { ROOT } from '../../tidy/projectFiles.ts';
import type { KubernetesObject } from '../render.ts';

export const KUBERNETES = '1.37.2';
const MODULE = `k8s.io/kubernetes@v${KUBERNETES}`;
const PACKAGES = [
  ...['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubectl'].map(
    (name) => `k8s.io/kubernetes/cmd/${name}`,
  ),
  'go.etcd.io/etcd/server/v3',
];
/** Disables compiler optimizations, which would take a third of the build time. Without a version, helm rejects the cluster. */
const BUILD = [
  '-gcflags=all=-N -l',
  `-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=v${KUBERNETES}`,
];
const FOLDER = join(ROOT, 'node_modules/.cache', `kubernetes-${KUBERNETES}`);
const READY_WITHIN_MS = 120_000;

export const isControlPlaneBuilt = (): boolean => existsSync(FOLDER);

/** Builds the programs, which takes minutes. */
export function buildControlPlane(): void {
  mkdirSync(join(FOLDER, '..'), { recursive: true });
  const unfinished = mkdtempSync(`${FOLDER}-`);
  try {
    const { Dir: source } = JSON.parse(String(execFileSync('go', ['mod', 'download', '-json', MODULE])));
    // In its repository, the module takes its libraries from folders that the published module lacks.
    const libraries = KUBERNETES.replace(/^1/, '0');
    const modules = readFileSync(join(source, 'go.mod'), 'utf8')
      .replace(/^module .*$/m, 'module kubernetes')
      .replace(/^(?<at>\s*(?<name>k8s\.io\/\S+) =>) \.\/staging\S+$/gm, `$<at> $<name> v${libraries}`);
    writeFileSync(join(unfinished, 'go.mod'), `${modules}\nrequire ${MODULE.replace('@', ' ')}\n`);
    writeFileSync(join(unfinished, 'go.sum'), readFileSync(join(source, 'go.sum')));
    const args = ['-n', '10', 'go', 'build', '-mod=mod', '-p=2', ...BUILD, '-o', './', ...PACKAGES];
    execFileSync('nice', args, { cwd: unfinished, env: { ...process.env, CGO_ENABLED: '0' }, stdio: 'pipe' });
    renameSync(unfinished, FOLDER);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

/** A running control plane, without nodes. */
export class ControlPlane {
  readonly #helm: string;
  readonly #folder = mkdtempSync(join(tmpdir(), 'questlog-kubernetes-'));
  readonly #children: ChildProcess[] = [];
  #proxy = '';

  constructor(helm: string) {
    this.#helm = helm;
  }

  async start(): Promise<void> {
    const [clients = 0, peers = 0, api = 0, proxy = 0] = await freePorts(4);
    const [etcd, server] = [`http://127.0.0.1:${clients}`, `https://127.0.0.1:${api}`];
    this.#write('tokens.csv', 'administrator,administrator,administrator,system:masters\n');
    const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
    this.#write('accounts.key', key.export({ type: 'pkcs1', format: 'pem' }));
    const config = {
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'own' },
      contexts: [{ name: 'own', context: { cluster: 'own', user: 'own' } }],
      clusters: [{ name: 'own', cluster: { server, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'own', user: { token: 'administrator' } }],
    };
    this.#write('kubeconfig', JSON.stringify(config));
    this.#start('server', {
      'data-dir': join(this.#folder, 'etcd'),
      ...{ 'listen-client-urls': etcd, 'advertise-client-urls': etcd },
      ...{ 'listen-peer-urls': `http://127.0.0.1:${peers}`, 'unsafe-no-fsync': 'true' },
    });
    this.#start('kube-apiserver', {
      ...{ 'etcd-servers': etcd, 'secure-port': `${api}`, 'cert-dir': this.#folder },
      ...{
        'bind-address': '127.0.0.1',
        'advertise-address': '127.0.0.1',
        'endpoint-reconciler-type': 'none',
      },
      ...{ 'authorization-mode': 'RBAC', 'token-auth-file': join(this.#folder, 'tokens.csv') },
      'service-cluster-ip-range': '10.96.0.0/16',
      'service-account-issuer': 'https://kubernetes.default.svc',
      'service-account-key-file': join(this.#folder, 'accounts.key'),
      'service-account-signing-key-file': join(this.#folder, 'accounts.key'),
    });
    await eventually(
      () => this.kubectl('get', '--raw=/readyz').catch(() => ''),
      (text) => text === 'ok',
      READY_WITHIN_MS,
    );
    const controller = { kubeconfig: this.#config, 'leader-elect': 'false', 'secure-port': '0' };
    this.#start('kube-scheduler', controller);
    this.#start('kube-controller-manager', {
      ...controller,
      'service-account-private-key-file': join(this.#folder, 'accounts.key'),
      // The nodes send no heartbeats.
      'node-monitor-grace-period': '24h',
      ...{
        'horizontal-pod-autoscaler-sync-period': '2s',
        'horizontal-pod-autoscaler-cpu-initialization-period': '1s',
      },
    });
    this.#start('kubectl', { kubeconfig: this.#config, port: `${proxy}` }, 'proxy');
    this.#proxy = `http://127.0.0.1:${proxy}`;
    await eventually(() => this.api('/version').catch(() => undefined), Boolean, READY_WITHIN_MS);
  }

  /** Sends a request to the API server. @throws Error with the answer if the status is not 2xx */
  async api(path: string, method = 'GET', body?: object): Promise<KubernetesObject> {
    const type = method === 'PATCH' ? 'application/strategic-merge-patch+json' : 'application/json';
    const answer = await fetch(this.#proxy + path, {
      ...{ method, headers: { 'Content-Type': type } },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${text}`);
    return JSON.parse(text);
  }

  /** Runs kubectl. Returns its output, with the warnings of the API server. */
  kubectl(...args: string[]): Promise<string> {
    return run(this.#program('kubectl'), ['--kubeconfig', this.#config, ...args]);
  }

  /** Creates or changes objects. */
  apply(...items: object[]): Promise<string> {
    const file = this.#write('objects.json', JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    return this.kubectl('apply', '--filename', file);
  }

  /** Runs helm with the values. Returns its output, with the warnings of the API server. */
  helm(args: readonly string[], values: object = {}): Promise<string> {
    const file = this.#write('values.json', JSON.stringify(values));
    const given = ['install', 'upgrade'].includes(args[0] ?? '') ? ['--values', file] : [];
    return run(this.#helm, ['--kubeconfig', this.#config, ...args, ...given]);
  }

  /** Certificate of the API server, which the server itself has signed. */
  certificate(): { readonly cert: Buffer; readonly key: Buffer } {
    const [cert, key] = ['apiserver.crt', 'apiserver.key'].map((name) =>
      readFileSync(join(this.#folder, name)),
    );
    return { cert: cert as Buffer, key: key as Buffer };
  }

  /** Returns the last lines of the output of a program. */
  outputOf(program: string): string {
    return readFileSync(join(this.#folder, `${program}.log`), 'utf8').slice(-4_000);
  }

  async stop(): Promise<void> {
    for (const child of this.#children.toReversed()) await end(child, 'SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #config(): string {
    return join(this.#folder, 'kubeconfig');
  }

  #program(name: string): string {
    return join(FOLDER, name);
  }

  #write(name: string, text: string | Buffer): string {
    const path = join(this.#folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  }

  #start(program: string, flags: Readonly<Record<string, string>>, ...args: string[]): void {
    const file = openSync(join(this.#folder, `${program}.log`), 'a');
    const given = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
    const child = spawn(this.#program(program), [...args, ...given], { stdio: ['ignore', file, file] });
    closeSync(file);
    process.once('exit', () => void child.kill('SIGKILL'));
    this.#children.push(child);
  }
}

async function run(program: string, args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(program, args, { maxBuffer: 64 * 1024 * 1024 });
  return stdout + stderr;
}
