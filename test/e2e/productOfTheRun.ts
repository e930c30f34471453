/**
 * Starts one product for all end-to-end test files of a run. The product must stop with exit code 0 and without a bug in its
 * log.
 */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { endAfterTier } from '../tierEnds.ts';
import { bugsIn, emptyDataDir, removeDataDir, startProduct } from './product.ts';

/** Starts the product on the engines of the tier or on embedded engines. @throws Error if the product does not start or stop */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const isOnKafka = ['e2e-kafka', 'e2e-cluster'].includes(project.name);
  const { engines } = project.getProvidedContext();
  if (isOnKafka && engines === undefined) {
    project.provide('product', undefined);
    return undefined;
  }
  const product = await startProduct({ engines, dataDir: emptyDataDir() });
  const { credentials, ingestAdminUrl, dataDir } = product;
  const outputFile = join(dataDir, 'output-of-the-tests');
  product.follow((chunk) => appendFileSync(outputFile, chunk));
  project.provide('product', { credentials, ingestAdminUrl, dataDir, outputFile });
  return endAfterTier(project, async () => {
    const code = await product.stop();
    await removeDataDir(product, engines);
    const bugs = bugsIn(product.stderr());
    if (code !== 0 || bugs.length > 0) {
      throw new Error(`the product of the tests ended with ${code}: ${bugs.join('\n')}\n${product.stderr()}`);
    }
  });
}
