/** Renders the chart with helm. */
import { type ExecFileException, execFile } from 'node:child_process';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { ROOT } from '../tidy/projectFiles.ts';

export const CHART = join(ROOT, 'deploy/helm/questlog');
export const EXAMPLES = ['small', 'large', 'existing-kafka'] as const;
export type Example = (typeof EXAMPLES)[number];

/** Options with which the chart renders objects of KEDA. */
export const KEDA = { apiVersions: ['keda.sh/v1alpha1'] };
/** Values of `kafka.sasl` for OAUTHBEARER. */
export const OAUTH = {
  mechanism: 'oauthbearer',
  existingSecret: 'questlog-kafka',
  tokenUrl: 'https://login.example/token',
  scope: 'kafka',
};

/** A Kubernetes object. The tests read objects of many kinds, whose fields have no types here. */
// biome-ignore lint/suspicious/noExplicitAny: the schemas of Kubernetes check the objects.
export type KubernetesObject = any;

export interface RenderOptions {
  /** Values on top of the example. */
  readonly values?: object;
  /** API versions of the cluster, in addition to the versions of Kubernetes. */
  readonly apiVersions?: readonly string[];
  readonly isUpgrade?: boolean;
}

/** Returns the rendered text. @throws Error with the message of helm. */
export async function renderText(
  helm: string,
  example: Example | undefined,
  { values = {}, apiVersions = [], isUpgrade = false }: RenderOptions = {},
): Promise<string> {
  const files = example === undefined ? [] : ['--values', join(CHART, `examples/${example}.yaml`)];
  const args = [
    ...['template', 'questlog', CHART, '--namespace', 'game', ...files, '--values', '-'],
    ...apiVersions.flatMap((version) => ['--api-versions', version]),
    ...(isUpgrade ? ['--is-upgrade'] : []),
  ];
  return await runHelm(helm, args, JSON.stringify(values));
}

export async function render(
  helm: string,
  example: Example | undefined,
  options?: RenderOptions,
): Promise<KubernetesObject[]> {
  const text = await renderText(helm, example, options);
  return parseAllDocuments(text).flatMap((document) => document.toJS() ?? []);
}

export function runHelm(helm: string, args: readonly string[], input = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      helm,
      args,
      { maxBuffer: 64 * 1024 * 1024 },
      (error: ExecFileException | null, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(new Error(stderr || error.message));
      },
    );
    child.stdin?.end(input);
  });
}

/** Returns the object of a kind whose name ends with the given text. @throws Error if there is none. */
export function objectOf(
  objects: readonly KubernetesObject[],
  kind: string,
  nameEnd: string,
): KubernetesObject {
  const found = objects.find((item) => item.kind === kind && item.metadata.name.endsWith(nameEnd));
  if (found === undefined) throw new Error(`no ${kind} …${nameEnd} was rendered`);
  return found;
}
