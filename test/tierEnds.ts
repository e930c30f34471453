/**
 * Ends the product and the engines of a tier after its last test file. Until the end of the run, an idle deployment on Kafka
 * would use a tenth of a core, and would repeat its requests while the fault tests kill brokers.
 */
import type { Reporter, TestModule, TestProject, TestSpecification } from 'vitest/node';

type End = () => Promise<void>;

/** State that all tiers share, because every tier loads this module again. */
const run = globalThis as typeof globalThis & { questlogTierEnds?: Map<string, readonly End[]> };

/**
 * Registers `end` for the end of the tier. Later registered functions run first.
 * @returns a function for the teardown of the tier. The function waits for `end`, and throws its error.
 */
export function endAfterTier({ name }: Pick<TestProject, 'name'>, end: End): End {
  let ended: Promise<void> | undefined;
  const endOnce = (): Promise<void> => {
    ended ??= end();
    return ended;
  };
  run.questlogTierEnds ??= new Map();
  run.questlogTierEnds.set(name, [endOnce, ...(run.questlogTierEnds.get(name) ?? [])]);
  return endOnce;
}

export class TierEnds implements Reporter {
  readonly #remaining = new Map<string, number>();

  onTestRunStart(specifications: readonly TestSpecification[]): void {
    for (const { project } of specifications) this.#add(project.name, 1);
  }

  onTestModuleEnd({ project }: TestModule): void {
    if (this.#add(project.name, -1) === 0) void endTier(project.name);
  }

  #add(name: string, count: number): number {
    const remaining = (this.#remaining.get(name) ?? 0) + count;
    this.#remaining.set(name, remaining);
    return remaining;
  }
}

async function endTier(name: string): Promise<void> {
  // The teardown of the tier throws the errors.
  for (const end of run.questlogTierEnds?.get(name) ?? []) await end().catch(() => undefined);
}
