/** Validates the rendered objects of the Helm chart with the schemas of Kubernetes and of operators, and with kube-score. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ROOT } from '../tidy/projectFiles.ts';
import { EXAMPLES, KEDA, OAUTH, renderText } from './render.ts';
import { type Checkers, ifAvailable, provideCheckers, provideHelm } from './tools.ts';

const helm = (await ifAvailable(provideHelm, (line) => console.warn(line))) ?? '';
const checkers = helm === '' ? undefined : await ifAvailable(provideCheckers, (line) => console.warn(line));
/** Oldest version of Kubernetes whose schemas the objects must match. */
const OLDEST = '1.31';
/** The image has a version, so a pull on every start is not needed. A CPU limit would slow down a pod on an idle node. */
const KUBE_SCORE = [
  'score',
  '--ignore-container-cpu-limit',
  '--ignore-test',
  'container-image-pull-policy',
  '-',
];

describe.skipIf(checkers === undefined)('the rendered objects of the Helm chart', () => {
  test('match all schemas, and kube-score finds no critical problem', async () => {
    const { kubeScore } = checkers as Checkers;
    const scaled = { autoscaling: { enabled: true, maxReplicas: 4 } };
    const values = { ingest: scaled, linker: scaled, projector: scaled };
    const variants = [
      {},
      { values },
      { values, ...KEDA },
      { values: { ...values, kafka: { tls: { enabled: true }, sasl: OAUTH } }, ...KEDA },
    ];
    const texts = await Promise.all(
      EXAMPLES.map((name) => Promise.all(variants.map((options) => renderText(helm, name, options)))),
    );
    const objects = new Set(texts.flat(2).flatMap((text) => text.split(/^---$/m)));
    const { versions, problems } = validate([...objects].join('\n---\n'));
    expect(problems).toEqual([]);
    const page = readFileSync(join(ROOT, 'docs/operating/kubernetes.md'), 'utf8').replace(/\s+/g, ' ');
    expect(page).toContain(`for Kubernetes ${OLDEST} to ${versions.at(-1)}.`);
    console.log(`${objects.size} different objects are valid for Kubernetes ${versions.join(', ')}`);
    for (const [input] of texts) execFileSync(kubeScore, KUBE_SCORE, { input, stdio: 'pipe' });
  });

  test('do not match the schemas with an unknown field or a wrong type', async () => {
    const text = await renderText(helm, 'large');
    const { versions, problems } = validate(
      text
        .replace('maxSurge: 1', 'maxSurges: 1')
        .replace('lagThreshold: "5000"', 'lagThreshold: [1]')
        .replace('interval: 30s', 'intervals: 30s')
        .replace('record: questlog:', 'records: questlog:'),
    );
    const of = (what: string) => problems.filter((line) => line.startsWith(`${what} questlog`));
    expect(of('Deployment')).toHaveLength(versions.length);
    for (const line of of('Deployment')) expect(line).toContain('maxSurges');
    expect(of('ScaledObject').join()).toContain('[1]');
    expect(of('ServiceMonitor').join()).toContain('intervals');
    expect(of('PrometheusRule').join()).toContain('records');
  });
});

/** Validates objects against the schemas of Kubernetes and of custom resources. Returns the versions of Kubernetes, and the problems. */
function validate(input: string): { readonly versions: string[]; readonly problems: string[] } {
  const { python, definitions } = checkers as Checkers;
  const args = [join(ROOT, 'test/helm/validate.py'), OLDEST, ...definitions];
  const [versions = '', ...problems] = execFileSync(python, args, { input, encoding: 'utf8' })
    .trimEnd()
    .split('\n');
  return { versions: versions.split(' '), problems };
}
