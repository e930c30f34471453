/** What tests find as `vitest` in the process of `inProcess.ts`: it notes each test instead of running it. */
import { expect as itsExpect } from 'vitest';

export { expectTypeOf, vi } from 'vitest';

/** Its own `poll` wants one of its own tests. */
export const expect = Object.assign(
  (...told: Parameters<typeof itsExpect>) => itsExpect(...told),
  itsExpect,
  {
    poll: (ask: () => unknown, { timeout = 1_000 } = {}) => {
      const until = async (matcher: string, args: unknown[]): Promise<void> => {
        const untilMs = performance.now() + timeout;
        for (;;) {
          try {
            const matchers = itsExpect(await ask()) as unknown as Record<
              string,
              (...args: unknown[]) => unknown
            >;
            const check = matchers[matcher];
            if (check === undefined) throw new Error(`expect.poll knows no ${matcher} here`);
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
  /** Its file and its titles. */
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
      if ('raw' in rows) throw new Error(`${path}: a table in a template is not read: ${values.length}`);
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

/** Another mutant may have come since the test before. */
export const beforeAll = beforeEach;

export function afterEach(hook: Hook): void {
  after.unshift(hook);
}

export function onTestFinished(hook: Hook): void {
  finishing.push(hook);
}
