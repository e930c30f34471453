/**
 * Provides the product of a test file. It is the product of the run, which other files use at the same time, or a separate
 * product. The log of the product must contain no bug. A separate product must also stop with exit code 0.
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

/** The product of the run in the form in which the tests receive it. */
export interface ProductOfTheRun {
  readonly credentials: Credentials;
  readonly ingestAdminUrl: string | undefined;
  readonly dataDir: string;
  /** Path of the file with the standard output and the standard error of all processes. */
  readonly outputFile: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    product: ProductOfTheRun | undefined;
  }
}

export interface SharedProduct<Of extends Reached> {
  /** The product. It is available from the first `beforeAll` of the file. */
  readonly product: Of;
  aProject(of?: ProjectOptions): Promise<TestProject>;
}

/** Returns the product of the run. Tests must create their own projects and must not change anything that other tests see. */
export function sharedProduct(): SharedProduct<Reached & { dataDir: string; output(): string }> {
  const shared = inject('product');
  const output = (): string => (shared === undefined ? '' : readFileSync(shared.outputFile, 'utf8'));
  const product = shared && {
    ...reach(shared.credentials, shared.ingestAdminUrl),
    dataDir: shared.dataDir,
    output,
  };
  const before = bugsIn(output()).length;
  afterAll(() => expect(bugsIn(output()).slice(before)).toEqual([]));
  return sharedBy(() => product, output);
}

/** Starts a separate product for tests that need special settings, the output, or the processes. */
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
  // Registers this hook before the hook that stops the product. `afterAll` hooks run in reverse order, so the product still runs.
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

/** Returns details after a failed test: the readiness of the product, and the log entries above the level info. */
async function lastWords(product: Reached, output: string): Promise<string> {
  const ready = await fetch(`${product.credentials.adminUrl}/readyz`)
    .then((answer) => answer.text())
    .catch(String);
  const lines = output.split('\n').filter((line) => !line.includes('"level":"info"'));
  return `the product is: ${ready}\nand said:\n${lines.join('\n')}`;
}
