/** One started product for all tests of a file; at the end it must stop cleanly and have logged no bug. */
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { aProject, type ProjectOptions, type TestProject } from './builders.ts';
import { type Product, removeDataDir, type StartOptions, startProduct } from './product.ts';

export interface SharedProduct {
  /** From the first `beforeAll` of the file on. */
  readonly product: Product;
  aProject(of?: ProjectOptions): Promise<TestProject>;
}

export function sharedProduct(options: StartOptions = {}): SharedProduct {
  let started: Product | undefined;
  let hasFailed = false;
  const product = (): Product => {
    if (started === undefined) throw new Error('the product has not been started yet');
    return started;
  };
  beforeAll(async () => {
    started = await startProduct(options);
  });
  afterEach(({ task }) => {
    hasFailed ||= task.result?.state === 'fail';
  });
  afterAll(async () => {
    if (hasFailed) console.error(await lastWords(product()));
    const code = await product().stop();
    await removeDataDir(product());
    expect(bugsIn(product().stderr())).toEqual([]);
    expect(code).toBe(0);
  });
  return {
    get product() {
      return product();
    },
    aProject: (of) => aProject(product(), of),
  };
}

/** Lines of the log that tell of a bug rather than of a caller or a dependency. */
export function bugsIn(stderr: string): string[] {
  return stderr.split('\n').filter((line) => line.includes('"bug":true'));
}

/** What helps to understand a failed test: whether the product is ready, and every line of its log but the harmless ones. */
async function lastWords(product: Product): Promise<string> {
  const ready = await fetch(`${product.credentials.adminUrl}/readyz`)
    .then((answer) => answer.text())
    .catch(String);
  const lines = product
    .stderr()
    .split('\n')
    .filter((line) => !line.includes('"level":30'));
  return `the product is: ${ready}\nand said:\n${lines.join('\n')}`;
}
