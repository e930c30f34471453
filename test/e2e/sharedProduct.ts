/**
 * Provides the product of a test file: the product of the run, which other files use at the same time, or a separate one.
 * Neither may log a bug; a separate product must also stop cleanly.
 */
import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, expect, inject } from 'vitest';
import { aProject, type ProjectOptions, type TestProject } from './builders.ts';
import {
  bugsIn,
  type Credentials,
  type Product,
  type Reached,
  reach,
  removeDataDir,
  type StartOptions,
  startProduct,
} from './product.ts';

/** The product of the run, as provided to the tests. */
export interface ProductOfTheRun {
  readonly credentials: Credentials;
  /** File with the standard output and standard error of all processes. */
  readonly outputFile: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    product: ProductOfTheRun | undefined;
  }
}

export interface SharedProduct<Of extends Reached> {
  /** Available from the first `beforeAll` of the file. */
  readonly product: Of;
  aProject(of?: ProjectOptions): Promise<TestProject>;
}

/** Returns the product of the run. Tests create their own projects and change nothing that other tests see. */
export function sharedProduct(): SharedProduct<Reached & { output(): string }> {
  const shared = inject('product');
  const output = (): string => (shared === undefined ? '' : readFileSync(shared.outputFile, 'utf8'));
  const product = shared && { ...reach(shared.credentials), output };
  const before = bugsIn(output()).length;
  afterAll(() => expect(bugsIn(output()).slice(before)).toEqual([]));
  return sharedBy(() => product, output);
}

/** Starts a separate product for tests that need its settings, output, or processes. */
export function ownProduct(options: StartOptions = {}): SharedProduct<Product> {
  let product: Product | undefined;
  beforeAll(async () => {
    product = await startProduct(options);
  });
  afterAll(async () => {
    if (product === undefined) return;
    const code = await product.stop();
    await removeDataDir(product);
    expect(bugsIn(product.stderr())).toEqual([]);
    expect(code).toBe(0);
  });
  return sharedBy(
    () => product,
    () => product?.stderr() ?? '',
  );
}

function sharedBy<Of extends Reached>(
  current: () => Of | undefined,
  output: () => string,
): SharedProduct<Of> {
  let hasFailed = false;
  const product = (): Of => {
    const there = current();
    if (there === undefined) throw new Error('the product has not been started yet');
    return there;
  };
  afterEach(({ task }) => {
    hasFailed ||= task.result?.state === 'fail';
  });
  // Registered before the hook that stops the product, because `afterAll` hooks run in reverse order.
  afterAll(async () => {
    if (hasFailed) console.error(await lastWords(product(), output()));
  });
  return {
    get product() {
      return product();
    },
    aProject: (of) => aProject(product(), of),
  };
}

/** Explains a failed test: the product's readiness, and its log entries above the level info. */
async function lastWords(product: Reached, output: string): Promise<string> {
  const ready = await fetch(`${product.credentials.adminUrl}/readyz`)
    .then((answer) => answer.text())
    .catch(String);
  const lines = output.split('\n').filter((line) => !line.includes('"level":"info"'));
  return `the product is: ${ready}\nand said:\n${lines.join('\n')}`;
}
