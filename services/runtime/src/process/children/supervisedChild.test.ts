/** Tests a child process that exits, hangs, or never starts. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, onTestFinished, test, vi } from 'vitest';
import { messageOf } from '../errors.ts';
import { CHILD_STOP_DEADLINE_MS, createLifecycle } from '../lifecycle.ts';
import { silentLogger } from '../logger.ts';
import { aPause } from '../testing/aPause.ts';
import { type ChildOptions, type SupervisedChild, superviseChild } from './supervisedChild.ts';

/** Script of a child that reports its arguments, answers probes, and exits on request. */
const USUAL = `process.on('message', (m) => m.probe ? process.send({ answers: true }) : process.exit(0));
  process.send({ ready: process.argv[1] });`;
const HANGS = `process.send({ ready: process.argv[1] }); setTimeout(() => { for (;;); }, 20)`;
const ENDS = `process.send({ ready: process.argv[1] }, () => process.exit(3))`;
const REFUSES = `process.send({ refused: 'no room' }, () => process.exit(1))`;

const STAYS = `process.on('message', () => process.send({ stopping: true })); process.send({ ready: '' })`;

/** Supervises children that run the scripts in order. Further children run the last script. */
async function supervised(scripts: readonly string[], options: Partial<ChildOptions<string>> = {}) {
  const children: ChildProcess[] = [];
  const logged: [event: string, fields: object | undefined][] = [];
  const one: SupervisedChild<string> = await superviseChild<string>({
    name: 'the child',
    spawn: (first) => {
      const script = scripts[Math.min(children.length, scripts.length - 1)] ?? '';
      const child = spawn(process.execPath, ['-e', script, `${first ?? 'new'}.`], {
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      });
      children.push(child);
      return child;
    },
    stop: (child) => child.send({ stop: true }),
    events: { ended: 'ended', notStarted: 'not_started' },
    logger: {
      ...silentLogger,
      error: (event, _, fields) => logged.push([event, fields]),
      warn: (event, fields) => logged.push([event, fields]),
    },
    times: { probeMs: 50, startMs: 20_000 },
    retryMs: [1, 4],
    ...options,
  });
  onTestFinished(() => one.close());
  return { one, children, told: logged };
}

test('restarts a killed child with the first child’s result, and requests its stop at the end', async () => {
  const { one, children, told: logged } = await supervised([USUAL]);
  children[0]?.kill('SIGKILL');
  await expect.poll(() => children.length).toBe(2);
  await expect.poll(() => one.problem()).toBeUndefined();

  expect(one.first).toBe('new.');
  expect(children[1]?.spawnargs.at(-1)).toBe('new..');
  expect(logged).toEqual([['ended', { code: null, signal: 'SIGKILL' }]]);
  await one.close();
  expect(children.map(({ exitCode }) => exitCode)).toEqual([null, 0]);
});

test('kills and restarts a child that does not answer probes', async () => {
  const { children, told: logged } = await supervised([HANGS, USUAL]);
  await expect.poll(() => children.length).toBe(2);

  expect(logged[0]).toEqual(['ended', { code: null, signal: 'SIGKILL' }]);
});

test('kills a child that cannot stop, before its own time limit ends', async () => {
  const times = { probeMs: 60_000, startMs: 20_000 };
  const { one, children } = await supervised([STAYS], { times });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const child = createLifecycle(silentLogger, CHILD_STOP_DEADLINE_MS);
  child.onStop('hangs', () => new Promise(() => {}));
  const parent = createLifecycle(silentLogger);
  parent.onStop('child', () => one.close());
  const logged = once(children[0] as ChildProcess, 'message');
  const stopped = parent.stop();
  await logged;
  const hung = child.stop().catch(messageOf);

  await vi.advanceTimersByTimeAsync(13_000);
  expect(await Promise.race([hung, 'it still hangs'])).toBe('did not stop within 13000 ms');
  expect(children[0]?.killed).toBe(false);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(children[0]?.killed).toBe(true);
  await stopped;
});

test('reports why the first start was rejected', async () => {
  await expect(supervised([REFUSES])).rejects.toThrow('no room');
});

test('ignores other messages of a child that starts', async () => {
  const { one } = await supervised([`process.send({ ask: 'health' }); ${USUAL}`]);

  expect(one.first).toBe('new.');
});

test('restarts a child that exits soon after each start with growing pauses, and then gives up', async () => {
  const failures = { withinMs: 60_000, most: 5 };
  const { one, told: logged } = await supervised([ENDS, ENDS, REFUSES, ENDS], { failures });

  await expect(one.failed).rejects.toThrow('the child failed 5 times: it exited with 3');
  const pauses = logged.filter(([event]) => event === 'not_started').map(([, fields]) => fields);
  expect(pauses).toEqual([
    { cause: 'it exited with 3', backoffMs: aPause(1) },
    { cause: 'it exited with 3', backoffMs: aPause(2) },
    { cause: 'no room', backoffMs: aPause(4) },
    { cause: 'it exited with 3', backoffMs: aPause(4) },
  ]);
});

test('restarts at once after a run that was long enough, which is not a failure', async () => {
  const { children, told: logged } = await supervised([ENDS, ENDS, ENDS, USUAL], {
    failures: { withinMs: 0, most: 1 },
  });
  await expect.poll(() => children.length).toBe(4);

  expect(logged.map(([event]) => event)).toEqual(['ended', 'ended', 'ended']);
});
