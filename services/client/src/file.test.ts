import fs, { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { fileQueue } from './file.ts';

test('a file returns the entries that were written and not removed, in order', async () => {
  const path = temporaryPath();
  const queue = fileQueue(path);
  expect(await queue.open()).toEqual([]);
  await queue.write([
    [1, { kind: 'session', text: '{}' }],
    [2, { kind: 'event', text: '{"é":"\\n"}' }],
    [3, { kind: 'event', text: '{}' }],
  ]);
  await queue.write([
    [1, null],
    [2, { kind: 'event', text: '{"é":"\\n"}', batch: { key: 'a', count: 1 } }],
  ]);

  expect(await fileQueue(path).open()).toEqual([
    [2, { kind: 'event', text: '{"é":"\\n"}', batch: { key: 'a', count: 1 } }],
    [3, { kind: 'event', text: '{}' }],
  ]);
});

test('an incomplete write is ignored', async () => {
  const path = temporaryPath();
  const queue = fileQueue(path);
  await queue.open();
  await queue.write([[1, { kind: 'event', text: '{}' }]]);
  appendFileSync(path, '[[2,{"kind":"ev');
  const next = fileQueue(path);

  expect(await next.open()).toEqual([[1, { kind: 'event', text: '{}' }]]);
  await next.write([[2, { kind: 'event', text: '{}' }]]);
  expect((await fileQueue(path).open()).map(([id]) => id)).toEqual([1, 2]);
});

test('a failed write, as on a full disk, loses no entry that is written later', async () => {
  const path = temporaryPath();
  const queue = fileQueue(path);
  await queue.open();
  const full = vi.spyOn(fs, 'appendFileSync').mockImplementationOnce(() => {
    writeFileSync(path, '[[1,{"kind":"ev');
    throw new Error('ENOSPC');
  });
  syncBuiltinESMExports();
  onTestFinished(() => {
    full.mockRestore();
    syncBuiltinESMExports();
  });
  expect(() => queue.write([[1, { kind: 'event', text: '{}' }]])).toThrow('ENOSPC');
  await queue.write([[2, { kind: 'event', text: '{}' }]]);

  expect((await fileQueue(path).open()).map(([id]) => id)).toEqual([1, 2]);
});

test('a full disk leaks no open files, and is tried again every few seconds', async () => {
  const path = temporaryPath();
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0);
  const queue = fileQueue(path);
  await queue.open();
  const opened = vi.spyOn(fs, 'openSync');
  const closed = vi.spyOn(fs, 'closeSync');
  const full = vi.spyOn(fs, 'appendFileSync').mockImplementation(() => {
    throw new Error('ENOSPC');
  });
  syncBuiltinESMExports();
  onTestFinished(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });
  const note = (id: number) => queue.write([[id, { kind: 'event', text: '{}' }]]);
  for (let id = 1; id <= 100; id += 1) {
    clock.mockReturnValue(id * 100);
    expect(() => note(id)).toThrow('ENOSPC');
  }
  expect(opened.mock.calls.length).toBe(closed.mock.calls.length);
  expect(opened.mock.calls.length).toBeLessThan(5);
  // Each removal causes an attempt to write. Otherwise, the next start would send the removed entry again.
  const before = opened.mock.calls.length;
  for (let id = 1; id <= 10; id += 1) expect(() => queue.write([[id, null]])).toThrow('ENOSPC');
  expect(opened.mock.calls.length).toBe(before + 10);
  full.mockRestore();
  syncBuiltinESMExports();
  clock.mockReturnValue(20_000);
  await note(101);

  expect((await fileQueue(path).open()).length).toBe(91);
});

test('a file does not keep removed entries, and only its owner can read it', async () => {
  const path = temporaryPath();
  const queue = fileQueue(path);
  await queue.open();
  const text = 'x'.repeat(10_000);
  for (let id = 1; id <= 1_000; id += 1) {
    await queue.write([[id, { kind: 'event', text }]]);
    if (id > 1) await queue.write([[id - 1, null]]);
  }

  expect(statSync(path).size).toBeLessThan(1_500_000);
  expect(statSync(path).mode & 0o077).toBe(0);
  expect((await fileQueue(path).open()).map(([id]) => id)).toEqual([1_000]);
  expect(readFileSync(path, 'utf8').split('\n').length).toBe(2);
});

function temporaryPath(): string {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-client-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'queue');
}
