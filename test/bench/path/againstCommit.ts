/** Compares this tree with a commit: measures the commit, this tree, and the commit again, so that noise is visible. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { measurePeer, type PathBench } from './measurePath.ts';
import type { AgainstRow } from './pathFigures.ts';
import { nameOf, type Shape } from './pathOptions.ts';
import { OWN_TREE, type QuestlogPeer } from './questlogPeer.ts';

/** Maximum difference of the two runs of the commit. A larger difference makes the comparison inconclusive. */
const MAX_NOISE = 0.05;

/** Extracts a commit to `folder` and links the packages of this tree. @throws Error with the message of git */
export function checkOut(commit: string, folder: string): { readonly root: string; readonly commit: string } {
  const git = (...args: string[]): Buffer =>
    execFileSync('git', ['-C', OWN_TREE, ...args], { maxBuffer: 1024 ** 3 });
  const name = git('rev-parse', '--short=7', '--verify', `${commit}^{commit}`).toString().trim();
  const root = join(folder, name);
  mkdirSync(root);
  execFileSync('tar', ['-x', '-C', root], { input: git('archive', name) });
  linkPackages(root);
  return { root, commit: name };
}

/** Links all packages except the workspaces, which belong to the tree. */
function linkPackages(root: string): void {
  const [from, to] = [join(OWN_TREE, 'node_modules'), join(root, 'node_modules')];
  const workspaces = '@questlog';
  mkdirSync(join(to, workspaces), { recursive: true });
  for (const name of readdirSync(from)) {
    if (name !== workspaces && name !== '.cache') symlinkSync(join(from, name), join(to, name));
  }
  const services = readdirSync(join(root, 'services')).map((name) => `services/${name}`);
  for (const path of ['schemas', 'test', ...services]) {
    symlinkSync(join(root, path), join(to, workspaces, path.replace('services/', '')));
  }
}

export async function compareRow(
  bench: PathBench,
  parent: QuestlogPeer,
  candidate: QuestlogPeer,
  shape: Shape,
): Promise<AgainstRow> {
  const cost = async (of: QuestlogPeer, what: string): Promise<number> => {
    bench.say(`${nameOf(shape)}: ${what}`);
    return (await measurePeer(bench, of, of, shape)).cpuMicrosPerEvent;
  };
  // Warms up the commit, because only the first of its two runs would be cold.
  await cost(parent, 'parent warms up');
  await cost(candidate, 'candidate warms up');
  const first = await cost(parent, 'parent');
  const candidateMicros = await cost(candidate, 'candidate');
  return { ...shape, parentMicros: [first, await cost(parent, 'parent again')], candidateMicros };
}

/** Returns the verdict as text. */
export function verdict({ parentMicros, candidateMicros }: AgainstRow): string {
  const [one, other] = parentMicros;
  const noise = Math.abs(one - other) / Math.min(one, other);
  if (!(noise <= MAX_NOISE)) return `inconclusive: the parent differs from itself by ${percent(noise)}`;
  const ratio = candidateMicros / ((one + other) / 2);
  if (Math.abs(ratio - 1) <= noise) return `no difference beyond the noise of ${percent(noise)}`;
  return `${ratio.toFixed(2)} of the parent`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
