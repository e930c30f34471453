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
    if (hasFailed) console.error(`the product said:\n${troublesIn(product().stderr()).join('\n')}`);
    const code = await product().stop();
    removeDataDir(product());
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

/** Everything but what is only told. */
function troublesIn(stderr: string): string[] {
  return stderr.split('\n').filter((line) => line !== '' && !line.includes('"level":30'));
}
