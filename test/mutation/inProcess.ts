/**
 * Test runner for Stryker that runs tests without IO in one process, one mutant after the other. Without vitest's workers, a
 * mutant takes a hundredth of the time. Vitest's `expect` is used. `test` and `describe` only register the tests.
 */
import { globSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { type Noted, noted, noteTestsOf } from './notedTests.ts';

interface Namespace {
  activeMutant?: string | undefined;
  currentTestId?: string | undefined;
  hitCount?: number | undefined;
  hitLimit?: number | undefined;
  mutantCoverage?: unknown;
}

interface MutantRun {
  readonly testFilter?: readonly string[];
  readonly hitLimit?: number;
  readonly activeMutant: { readonly id: string };
  readonly mutantActivation: 'runtime' | 'static';
}

/** Resolves the product's packages to the sources in Stryker's copy. */
const PRODUCT_SOURCES = [
  [/^@questlog\/schemas\/fixtures\/(.*)$/, 'schemas/fixtures/$1.ts'],
  [/^@questlog\/schemas\/(.*)$/, 'schemas/src/$1.ts'],
  [/^@questlog\/(\w+)\/(.*)$/, 'services/$1/src/$2.ts'],
] as const;

/** Returns the global object that Stryker's instrumented sources read. */
function namespaceOf(globals: { __stryker__?: Namespace }): Namespace {
  globals.__stryker__ ??= {};
  return globals.__stryker__;
}

class InProcessRunner {
  readonly #namespace = namespaceOf(globalThis as { __stryker__?: Namespace });

  capabilities() {
    return { reloadEnvironment: false };
  }

  async init(): Promise<void> {
    const shim = new URL('./notedTests.ts', import.meta.url).href;
    registerHooks({
      resolve: (specifier, context, next) => {
        if (specifier === 'vitest' && context.parentURL !== shim) return { url: shim, shortCircuit: true };
        for (const [name, path] of PRODUCT_SOURCES) {
          if (name.test(specifier)) {
            const url = pathToFileURL(resolve(specifier.replace(name, path))).href;
            return { url, format: 'module-typescript', shortCircuit: true };
          }
        }
        return next(specifier, context);
      },
    });
  }

  async dryRun() {
    await this.#load();
    const results = [];
    for (const test of [...noted]) {
      this.#namespace.currentTestId = test.id;
      const first = await resultOf(test);
      if (first.failureMessage?.startsWith(NEEDS_VITEST)) {
        noted.splice(noted.indexOf(test), 1);
        continue;
      }
      // Runs the test twice, because a test that fails the second time would seem to kill every mutant.
      const { timeSpentMs, ...second } = first.status === FAILED ? first : await resultOf(test);
      // Stryker adds time that belongs to no test to the limit of each mutant.
      results.push({ ...second, timeSpentMs: first.timeSpentMs + timeSpentMs });
      this.#namespace.currentTestId = undefined;
    }
    return { status: 'complete', tests: results, mutantCoverage: this.#namespace.mutantCoverage };
  }

  async mutantRun({ testFilter, hitLimit, activeMutant, mutantActivation }: MutantRun) {
    const namespace = this.#namespace;
    if (mutantActivation === 'static') namespace.activeMutant = activeMutant.id;
    namespace.hitLimit = hitLimit;
    namespace.hitCount = 0;
    try {
      await this.#load();
    } catch (error) {
      return { status: 'killed', killedBy: [], failureMessage: String(error), nrOfTests: 0 };
    }
    namespace.activeMutant = activeMutant.id;
    try {
      return await this.#run(noted.filter(({ id }) => testFilter === undefined || testFilter.includes(id)));
    } finally {
      namespace.activeMutant = undefined;
    }
  }

  async #run(tests: readonly Noted[]) {
    let nrOfTests = 0;
    for (const test of tests) {
      nrOfTests++;
      const result = await resultOf(test);
      const { hitCount = 0, hitLimit = Infinity } = this.#namespace;
      if (hitCount > hitLimit) return { status: 'timeout', reason: 'hit limit' };
      if (result.status === FAILED) {
        return { status: 'killed', killedBy: [test.id], failureMessage: result.failureMessage, nrOfTests };
      }
    }
    return { status: 'survived', nrOfTests };
  }

  #loaded: Promise<void> | undefined;

  #load(): Promise<void> {
    this.#loaded ??= (async () => {
      // Disables the shrinking of counterexamples, which takes most of the time and which this runner does not report.
      fc.configureGlobal({ endOnFailure: true });
      const paths = globSync((process.env['QUESTLOG_MUTANT_TESTS'] ?? '').split(','));
      for (const path of paths) await noteTestsOf(path, () => import(pathToFileURL(resolve(path)).href));
    })();
    return this.#loaded;
  }
}

const [SUCCESS, FAILED] = [0, 1];
/** Error of a test that sets the clock with vitest. The runner skips this test, so the test kills no mutant. */
const NEEDS_VITEST = 'Vitest failed to access its internal state';

interface Result {
  readonly id: string;
  readonly name: string;
  readonly timeSpentMs: number;
  readonly status: number;
  readonly failureMessage?: string;
}

async function resultOf({ id, run }: Noted): Promise<Result> {
  const startedAtMs = performance.now();
  const failure = await run().then(
    () => undefined,
    (error: unknown) => error ?? new Error('failed'),
  );
  const result = { id, name: id, timeSpentMs: performance.now() - startedAtMs };
  return failure === undefined
    ? { ...result, status: SUCCESS }
    : {
        ...result,
        status: FAILED,
        failureMessage: failure instanceof Error ? failure.message : String(failure),
      };
}

export const strykerPlugins = [{ kind: 'TestRunner', name: 'inProcess', injectableClass: InProcessRunner }];
