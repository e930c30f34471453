/** Reporter of vitest that lists the slowest test files, the retried tests, the long waits for a condition, and the failed hooks. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LONG_WAITS } from '@questlog/runtime/process/testing/pollUntil';
import type { Reporter, TestModule } from 'vitest/node';

const SHOWN = 25;
const MAX_LENGTH = 1_000;

export class Slowest implements Reporter {
  #folder = '';

  onInit(): void {
    this.#folder = mkdtempSync(join(tmpdir(), 'questlog-waits-'));
    const path = join(this.#folder, 'waits');
    writeFileSync(path, '');
    process.env[LONG_WAITS] = path;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const waits = readFileSync(join(this.#folder, 'waits'), 'utf8');
    rmSync(this.#folder, { recursive: true });
    if (waits !== '') console.log(`\nWaits for a condition that took five seconds or more:\n${waits}`);
    for (const module of modules)
      for (const test of module.children.allTests())
        if ((test.diagnostic()?.retryCount ?? 0) > 0)
          console.log(`Retried: ${module.relativeModuleId} > ${test.fullName}`);
    if (modules.length > SHOWN) printSlowest(modules);
    // The last lines of the output, because the JSON report has no errors of hooks and `.ci/run` repeats the last lines.
    for (const module of modules)
      for (const suite of [module, ...module.children.allSuites()])
        for (const { message } of suite.errors())
          console.log(
            `Failed outside of a test: ${module.relativeModuleId}: ${message.slice(0, MAX_LENGTH)}`,
          );
  }
}

function printSlowest(modules: readonly TestModule[]): void {
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
