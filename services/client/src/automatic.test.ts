import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { noteAutomatically } from './automatic.ts';

type Listener = (event: object) => void;
let noted: [string, object | undefined][];
let listeners: Map<string, Set<Listener>>;
let frames: ((ms: number) => void)[];
const game = { event: (type: string, payload?: object) => void noted.push([type, payload]) };
const happen = (name: string, event: object = {}): void =>
  listeners.get(name)?.forEach((tell) => void tell(event));

beforeEach(() => {
  [noted, listeners, frames] = [[], new Map(), []];
  vi.stubGlobal('document', { visibilityState: 'visible' });
  vi.stubGlobal('requestAnimationFrame', (onFrame: (ms: number) => void) => frames.push(onFrame));
  vi.stubGlobal('addEventListener', (name: string, tell: Listener, { signal }: { signal: AbortSignal }) => {
    const those = listeners.get(name) ?? new Set();
    listeners.set(name, those.add(tell));
    signal.addEventListener('abort', () => those.delete(tell));
  });
});
afterEach(() => void vi.unstubAllGlobals());

test('sends uncaught errors and rejections, and limits a flood of them', () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(100_000);
  noteAutomatically(game);
  const error = new Error('no sword');
  happen('error', { message: 'Uncaught Error: no sword', error });
  happen('unhandledrejection', { reason: 'no shield' });
  for (let n = 0; n < 100; n += 1) happen('error', { message: 'again' });
  now.mockReturnValue(120_000);
  happen('error', { message: 'later' });
  now.mockRestore();

  expect(noted.slice(0, 2)).toEqual([
    ['error', { message: 'Uncaught Error: no sword', stack: error.stack }],
    ['error', { message: 'no shield', stack: undefined }],
  ]);
  expect(noted.length).toBe(11);
  expect(noted.at(-1)).toEqual(['error', { message: 'later', stack: undefined, skipped: 92 }]);
});

test('counts slow frames in one event per ten seconds, without the time in which the page was hidden', () => {
  noteAutomatically(game);
  for (const ms of [0, 16, 32, 132, 148, 9_000]) frames.pop()?.(ms);
  happen('visibilitychange');
  noted.length = 0;
  frames.pop()?.(600_000);
  expect(noted).toEqual([['performance', { frames: 7, slowFrames: 2, longestFrameMs: 8_852 }]]);
  for (let ms = 600_016; ms < 612_000; ms += 16) frames.pop()?.(ms);
  expect(noted.length).toBe(1);
});

test('sends changes of the visibility until it is stopped', () => {
  const stop = noteAutomatically(game);
  vi.stubGlobal('document', { visibilityState: 'hidden' });
  happen('visibilitychange');
  stop();
  happen('visibilitychange');
  happen('error', { message: 'late' });
  frames.pop()?.(0);

  expect(noted).toEqual([['state_change', { visibility: 'hidden' }]]);
  expect(frames).toEqual([]);
});
