/** Reporter of vitest that lists the slowest test files. */
import type { Reporter, TestModule } from 'vitest/node';

const SHOWN = 25;

export class Slowest implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (modules.length <= SHOWN) return;
    const rows = modules
      .map((module) => ({ module, ms: module.diagnostic().duration + module.diagnostic().collectDuration }))
      .toSorted((a, b) => b.ms - a.ms);
    console.log(`\nThe ${SHOWN} slowest of ${rows.length} files:`);
    for (const { module, ms } of rows.slice(0, SHOWN)) {
      console.log(
        `${(ms / 1000).toFixed(1).padStart(7)} s  ${module.relativeModuleId} (${module.project.name})`,
      );
    }
  }
}
