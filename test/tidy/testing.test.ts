/** Checks that all tests run, wait for conditions instead of times, and print the reason if they are skipped. */
import { test } from 'vitest';
import { reached } from './graph.ts';
import { isMain, isTest } from './projectFiles.ts';
import { parseSources, type Source } from './sources.ts';
import { expectNone } from './violations.ts';

const sources = parseSources();
const tests = [...sources.values()].filter(({ path }) => isTest(path) || path.endsWith('.contract.ts'));
const product = reached([...sources.keys()].filter(isMain), {
  sources,
  follow: () => true,
  throughLiterals: false,
});

/** Test files that wait for a time, each with its reason. */
const SLEEPERS: Readonly<Record<string, string>> = {
  'deploy/kafka-local/waitUntil.ts': 'polls a condition',
  'services/runtime/src/process/testing/pollUntil.ts': 'polls a condition',
  'services/runtime/src/log/kafka/client/security.kafka.test.ts': 'sends load at a limited rate',
  'test/helm/cluster/nodeAgent.ts': 'checks probes at their interval, as a kubelet does',
  'test/bench/pace.ts': 'sends events at a fixed rate',
  'test/cluster/load.ts': 'sends load at a fixed rate',
  'test/console/screenshots.ts': 'waits until the figures of a page no longer change',
  'test/faults/killedBrokers.contract.ts': 'sends load at a limited rate',
  'test/runbooks/runbooks.test.ts': 'sends load at a limited rate',
  'test/faults/campaign/tryRows.ts': 'draws the times of faults, and prints the seed',
  'test/simulation/world/virtualTime.ts': 'replaces the timers of Node by simulated timers',
  'test/faults/killCampaign.ts': 'draws the time of a kill, and prints the seed',
  'test/exports/export.int.test.ts': 'draws the time of a kill, and prints the seed',
};

test('no test is focused, skipped, or marked as todo', () => {
  const focused = /^(test|it|describe|suite|bench)\.(only|skip|todo|fails)$/;
  expectNone(
    tests.flatMap(({ path, uses }) =>
      uses
        .filter(({ text }) => focused.test(text))
        .map(
          ({ text, line }) =>
            `${path}:${line}: no ${text}; if the test cannot run here, call context.skip(reason)`,
        ),
    ),
  );
});

test('a test that is skipped prints the reason', () => {
  expectNone(
    tests.flatMap(({ path, uses }) => {
      const conditional = uses.filter(({ text }) => /^(test|it|describe|suite)\.skipIf$/.test(text));
      const tells = uses.some(({ text }) => /^(console\.\w+|stderr\.write|process\.stderr)$/.test(text));
      return tells
        ? []
        : conditional.map(
            ({ text, line }) => `${path}:${line}: ${text} prints no reason; use context.skip(reason)`,
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
        return `${source.path}:${line}: waits for a time; wait for a condition, or add the reason to SLEEPERS`;
      }),
    ),
  );
});

test('each exception of the list is still needed', () => {
  expectNone(
    Object.keys(SLEEPERS)
      .filter((path) => {
        const source = sources.get(path);
        return source === undefined || sleepsOf(source).length === 0;
      })
      .map(
        (path) =>
          `${path}: does not wait for a time; remove the entry from SLEEPERS in test/tidy/testing.test.ts`,
      ),
  );
});

/** Returns the lines that wait for a time. A timer that the file also clears is a deadline. */
function sleepsOf({ imports, uses }: Source): number[] {
  const isDeadline = uses.some(({ text }) => text === 'clearTimeout()');
  return [
    ...imports.filter(({ specifier }) => specifier === 'node:timers/promises'),
    ...uses.filter(({ text }) => text === 'setTimeout()' && !isDeadline),
  ].map(({ line }) => line);
}
