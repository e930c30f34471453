/** Tests run whole, wait for conditions instead of times, and say why where one cannot run. */
import { test } from 'vitest';
import { reached } from './graph.ts';
import { isMain, isTest } from './house.ts';
import { parseSources, type Source } from './sources.ts';
import { expectNone } from './violations.ts';

const sources = parseSources();
const tests = [...sources.values()].filter(({ path }) => isTest(path) || path.endsWith('.contract.ts'));
const product = reached([...sources.keys()].filter(isMain), {
  sources,
  follow: () => true,
  throughLiterals: false,
});

/** Test code that lets time pass, each with its reason. */
const SLEEPERS: Readonly<Record<string, string>> = {
  'deploy/kafka-local/waitUntil.ts': 'polls a condition',
  'services/runtime/src/log/contract/harness.ts': 'polls a condition',
  'test/bench/pace.ts': 'the events have a pace, whatever the machine',
  'test/cluster/load.ts': 'the load has a pace, whatever the machine',
  'test/console/screenshots.ts': 'figures of a page that counts by the second come to rest',
  'test/e2e/builders.ts': 'polls a condition',
  'test/faults/campaign/tryRows.ts': 'the instants of faults are drawn, and their seed is printed',
  'test/simulation/world/virtualTime.ts': 'puts a simulated time in the place of Node’s',
  'test/faults/killCampaign.ts': 'the instant of a kill is drawn, and its seed is printed',
};

test('no test is focused, switched off or put off', () => {
  const held = /^(test|it|describe|suite|bench)\.(only|skip|todo|fails)$/;
  expectNone(
    tests.flatMap(({ path, uses }) =>
      uses
        .filter(({ text }) => held.test(text))
        .map(
          ({ text, line }) =>
            `${path}:${line}: no ${text}; one that cannot run here says why: context.skip(reason)`,
        ),
    ),
  );
});

test('a test that depends on its surroundings prints why it does not run', () => {
  expectNone(
    tests.flatMap(({ path, uses }) => {
      const conditional = uses.filter(({ text }) => /^(test|it|describe|suite)\.skipIf$/.test(text));
      const tells = uses.some(({ text }) => /^(console\.\w+|stderr\.write|process\.stderr)$/.test(text));
      return tells
        ? []
        : conditional.map(
            ({ text, line }) => `${path}:${line}: ${text} hides its reason; use context.skip(reason)`,
          );
    }),
  );
});

test('a test waits for a condition, never for a time', () => {
  const support = [...sources.values()].filter(
    ({ path }) => !product.has(path) && SLEEPERS[path] === undefined,
  );
  expectNone(
    support.flatMap((source) =>
      sleepsOf(source).map((line) => {
        return `${source.path}:${line}: sleeps; wait for a condition, or give the reason in SLEEPERS`;
      }),
    ),
  );
});

test('a file that may let time pass still does', () => {
  expectNone(
    Object.keys(SLEEPERS)
      .filter((path) => {
        const source = sources.get(path);
        return source === undefined || sleepsOf(source).length === 0;
      })
      .map(
        (path) =>
          `${path}: does not let time pass any more; take it out of SLEEPERS in test/tidy/testing.test.ts`,
      ),
  );
});

/** Lines that let time pass. A timer that the file also clears is a deadline for something else. */
function sleepsOf({ imports, uses }: Source): number[] {
  const isDeadline = uses.some(({ text }) => text === 'clearTimeout()');
  return [
    ...imports.filter(({ specifier }) => specifier === 'node:timers/promises'),
    ...uses.filter(({ text }) => text === 'setTimeout()' && !isDeadline),
  ].map(({ line }) => line);
}
