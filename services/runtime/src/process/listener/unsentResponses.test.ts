/** Whose answer goes where clients leave too many untaken. */
import { EventEmitter, once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import { aListener, MIB } from '../testing/aListener.ts';
import { UnsentResponses } from './unsentResponses.ts';

const request = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
/** On a busy machine, too. */
const SOON = { interval: 5, timeout: 20_000 };

/** Answers with as many MiB as the path says. */
async function aGenerousListener() {
  const answers: ServerResponse[] = [];
  const open = await aListener(({ url }, response) => {
    answers.push(response);
    response.end(Buffer.alloc(Number(url?.slice(1)) * MIB));
  });
  return { answers, open };
}

test('answers that nobody takes hold so much memory at most, and the others are answered', async () => {
  const { answers, open } = await aGenerousListener();
  for (let i = 0; i < 20; i++) open(request('/16')).pause();
  await vi.waitFor(() => expect(answers).toHaveLength(20), SOON);

  const held = () => answers.reduce((bytes, { socket }) => bytes + (socket?.writableLength ?? 0), 0);
  await vi.waitFor(() => expect(held()).toBeLessThanOrEqual((128 + 16 + 1) * MIB), SOON);
  expect(held()).toBeGreaterThan(64 * MIB);
  expect((await text(open(request('/0')))).length).toBeGreaterThan(0);
  expect((await text(open(request('/16')))).length).toBeGreaterThan(16 * MIB);
});

test('one answer that is larger than all may be is taken whole by a client that reads', async () => {
  const { open } = await aGenerousListener();
  const reader = open(request('/160'));
  let taken = 0;
  reader.on('data', (chunk: Buffer) => (taken += chunk.length));
  await once(reader, 'close');

  expect(taken).toBeGreaterThan(160 * MIB);
});

test('a client that reads has the whole of its answer, however many read nothing behind it', async () => {
  const { answers, open } = await aGenerousListener();
  const reader = open(request('/16'));
  let taken = 0;
  reader.on('data', (chunk: Buffer) => {
    taken += chunk.length;
    // Until the others have asked.
    if (taken > 8 * MIB && answers.length === 1) reader.pause();
  });
  await vi.waitFor(() => expect(taken).toBeGreaterThan(8 * MIB), SOON);
  for (let i = 0; i < 20; i++) open(request('/16')).pause();
  await vi.waitFor(() => expect(answers).toHaveLength(21), SOON);
  reader.resume();
  await once(reader, 'close');

  expect(taken).toBeGreaterThan(16 * MIB);
});

test('those that stand still go first, whoever holds more', () => {
  const { note, pass } = untaken();
  const [still, ...taken] = [note('still', 32), note('reader', 32), note('reader', 32), note('reader', 32)];
  for (const one of taken) one.take(8);
  pass(6_000);
  for (const one of taken) one.take(8);
  note('other', 32);
  expect(still.destroyed).toBe(false);
  note('other', 32);

  expect(still.destroyed).toBe(true);
  expect(taken.map(({ destroyed }) => destroyed)).toEqual([false, false, false]);
});

test('where all are taken one goes of the address that holds most: that of which most is left, but neither the largest nor the last', () => {
  const { note } = untaken();
  const others = [note('other', 32), note('third', 32)];
  const many = [40, 32, 32].map((mib) => note('many', mib));
  many[1]?.take(2);
  many[2]?.take(1);
  const last = note('many', 32);

  expect(many.map(({ destroyed }) => destroyed)).toEqual([false, false, true]);
  expect([...others, last].map(({ destroyed }) => destroyed)).toEqual([false, false, false]);
});

test('a large answer costs others theirs no more than it goes itself', () => {
  const { note } = untaken();
  const small = note('small', 32);
  const large = note('large', 256);
  const last = note('last', 32);

  expect([small, large, last].map(({ destroyed }) => destroyed)).toEqual([false, false, false]);
});

/** Answers that clients take as the test says, and a clock that it moves. */
function untaken() {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const answers = new UnsentResponses();
  const note = (remoteAddress: string, mib: number) => {
    const handle = { writeQueueSize: mib * MIB };
    const answer = Object.assign(new EventEmitter(), {
      writableLength: mib * MIB,
      writableFinished: false,
      socket: { remoteAddress, _handle: handle },
      destroyed: false,
      destroy: () => {
        answer.destroyed = true;
      },
      take: (taken: number) => {
        handle.writeQueueSize -= taken * MIB;
      },
    });
    answers.track(answer as unknown as ServerResponse);
    return answer;
  };
  return { note, pass: (ms: number) => void vi.advanceTimersByTime(ms) };
}
