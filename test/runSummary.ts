/**
 * Reporter of vitest that lists the long waits for a condition, the retried tests, the slowest test files, and the errors outside
 * of tests.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LONG_WAITS } from '@questlog/runtime/process/testing/pollUntil';
import type { Reporter, TestModule } from 'vitest/node';

const SHOWN = 25;
const MAX_MESSAGE_LENGTH = 1_000;

export class RunSummary implements Reporter {
  #folder = '';

  onInit(): void {
    this.#folder = mkdtempSync(join(tmpdir(), 'questlog-waits-'));
    const path = join(this.#folder, 'waits');
    writeFileSync(path, '');
    process.env[LONG_WAITS] = path;
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly { message: string }[]): void {
    const waits = readFileSync(join(this.#folder, 'waits'), 'utf8');
    rmSync(this.#folder, { recursive: true });
    if (waits !== '') console.log(`\nWaits for a condition that took five seconds or more:\n${waits}`);
    for (const module of modules)
      for (const test of module.children.allTests())
        if ((test.diagnostic()?.retryCount ?? 0) > 0)
          console.log(`Retried: ${module.relativeModuleId} > ${test.fullName}`);
    if (modules.length > SHOWN) printSlowest(modules);
    // These lines are printed last, because the JSON report does not have them and `.ci/run` repeats the end of the output.
    for (const module of modules)
      for (const suite of [module, ...module.children.allSuites()])
        printErrors(module.relativeModuleId, suite.errors());
    printErrors('an unknown file', unhandled);
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

function printErrors(file: string, errors: readonly { message: string }[]): void {
  for (const { message } of errors)
    console.log(`Failed outside of a test: ${file}: ${message.slice(0, MAX_MESSAGE_LENGTH)}`);
}
