/** Counts the files that a stranger opens to follow one thing through the code: those of which a function ran meanwhile. */
import { Session } from 'node:inspector/promises';
import { onTestFinished } from 'vitest';

/** Characters. */
const MAX_EXPORT_CHARACTERS = 80;

const PRODUCT_FILE = /(?:services|schemas)\/(?:\w+\/)*src\/[\w/]+\.ts$/;

/** Files of the product of which a function was called since the last time it was asked. */
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
        // Vitest reads what a module exports through arrows of its own, which are short and have no name.
        return (whole?.count ?? 0) > 0 && (functionName !== '' || length > MAX_EXPORT_CHARACTERS);
      }),
    );
    return called
      .flatMap(({ url }) => PRODUCT_FILE.exec(url)?.[0] ?? [])
      .filter((path) => !path.includes('/testing/'))
      .sort();
  };
}
