/** Lists the source files with a function that ran during an operation. A reader opens these files to follow the operation. */
import { Session } from 'node:inspector/promises';
import { onTestFinished } from 'vitest';

const MAX_EXPORT_CHARACTERS = 80;

const PRODUCT_FILE = /(?:services|schemas)\/(?:\w+\/)*src\/[\w/]+\.ts$/;

/** Returns a function that lists the product files whose functions ran since its previous call. */
export async function watchFiles(): Promise<() => Promise<string[]>> {
  const session = new Session();
  session.connect();
  onTestFinished(() => session.disconnect());
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true });
  return async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const called = result.filter(({ functions }) =>
      functions.some(({ functionName, ranges: [whole] }) => {
        const length = (whole?.endOffset ?? 0) - (whole?.startOffset ?? 0);
        // Ignores short anonymous arrow functions, because Vitest reads the exports of a module through such functions.
        return (whole?.count ?? 0) > 0 && (functionName !== '' || length > MAX_EXPORT_CHARACTERS);
      }),
    );
    return called
      .flatMap(({ url }) => PRODUCT_FILE.exec(url)?.[0] ?? [])
      .filter((path) => !path.includes('/testing/'))
      .sort();
  };
}
