/** Replaces the module `vitest` in the process of `inProcess.ts`. Registers each test instead of running it. */
import { expect as vitestExpect } from 'vitest';

export { expectTypeOf, vi } from 'vitest';

/** Replaces `expect.poll`, because vitest's `poll` works only in a test of vitest. */
export const expect = Object.assign(
  (...args: Parameters<typeof vitestExpect>) => vitestExpect(...args),
  vitestExpect,
  {
    poll: (ask: () => unknown, { timeout = 1_000 } = {}) => {
      const until = async (matcher: string, args: unknown[]): Promise<void> => {
        const untilMs = performance.now() + timeout;
        for (;;) {
          try {
            const matchers = vitestExpect(await ask()) as unknown as Record<
              string,
              (...args: unknown[]) => unknown
            >;
            const check = matchers[matcher];
            if (check === undefined)
              throw new Error(`expect.poll does not support the matcher ${matcher} here`);
            return void (await check.apply(matchers, args));
          } catch (error) {
            if (performance.now() > untilMs) throw error;
            await new Promise((resolve) => setImmediate(resolve));
          }
        }
      };
      return new Proxy(
        {},
        {
          get:
            (_, matcher) =>
            (...args: unknown[]) =>
              until(String(matcher), args),
        },
      );
    },
  },
);

export interface Noted {
  /** File and titles of the test. */
  readonly id: string;
  run(): Promise<void>;
}

type Body = (...args: unknown[]) => unknown;
type Hook = () => unknown;

export const noted: Noted[] = [];
let path = '';
let titles: string[] = [];
let before: Hook[] = [];
let after: Hook[] = [];
let finishing: Hook[] = [];

export async function noteTestsOf(file: string, load: () => Promise<unknown>): Promise<void> {
  [path, titles, before, after] = [file, [], [], []];
  await load();
}

export const test = Object.assign(
  (title: string, ...rest: unknown[]) => {
    const body = rest.find((one): one is Body => typeof one === 'function');
    const [mineBefore, mineAfter] = [before, after];
    const id = `${path}#${[...titles, title].join(' ')}`;
    if (body === undefined) return;
    noted.push({
      id: noted.some((one) => one.id === id) ? `${id} ${noted.length}` : id,
      run: async () => {
        finishing = [];
        try {
          for (const hook of mineBefore) await hook();
          await body({});
        } finally {
          for (const hook of [...mineAfter, ...finishing.toReversed()]) await hook();
        }
      },
    });
  },
  {
    each: (rows: readonly unknown[], ...values: unknown[]) => {
      if ('raw' in rows)
        throw new Error(
          `${path}: test.each does not support a table in a template literal here (${values.length} values)`,
        );
      return (title: string, ...rest: unknown[]) => {
        const body = rest.find((one): one is Body => typeof one === 'function');
        for (const [i, row] of rows.entries()) {
          test(`${title} ${i}`, () => body?.(...(Array.isArray(row) ? row : [row])));
        }
      };
    },
    skipIf: (isSkipped: boolean) => (isSkipped ? () => {} : test),
    runIf: (isRun: boolean) => (isRun ? test : () => {}),
  },
);
export const it = test;

export function describe(title: string, body: Hook): void {
  const outer = { titles, before, after };
  [titles, before, after] = [[...titles, title], [...before], [...after]];
  body();
  ({ titles, before, after } = outer);
}

export function beforeEach(hook: Hook): void {
  before.push(hook);
}

/** Runs before each test, because the mutant can change between two tests. */
export const beforeAll = beforeEach;

export function afterEach(hook: Hook): void {
  after.unshift(hook);
}

export function onTestFinished(hook: Hook): void {
  finishing.push(hook);
}
