/** Tests which connections the listener closes if clients leave too many responses unread. */
import { EventEmitter, once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import { aListener, MIB } from '../testing/aListener.ts';
import { UnsentResponses } from './unsentResponses.ts';

const request = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
/** Time limit that is long enough for a busy machine. */
const SOON = { interval: 5, timeout: 20_000 };

/** Opens a listener that responds with the number of MiB in the path. */
async function aGenerousListener() {
  const answers: ServerResponse[] = [];
  const open = await aListener(({ url }, response) => {
    answers.push(response);
    response.end(Buffer.alloc(Number(url?.slice(1)) * MIB));
  });
  return { answers, open };
}

test('limits the memory of unread responses, and answers the other clients', async () => {
  const { answers, open } = await aGenerousListener();
  for (let i = 0; i < 20; i++) open(request('/16')).pause();
  await vi.waitFor(() => expect(answers).toHaveLength(20), SOON);

  const unsentBytes = () => answers.reduce((bytes, { socket }) => bytes + (socket?.writableLength ?? 0), 0);
  await vi.waitFor(() => expect(unsentBytes()).toBeLessThanOrEqual((128 + 16 + 1) * MIB), SOON);
  expect(unsentBytes()).toBeGreaterThan(64 * MIB);
  expect((await text(open(request('/0')))).length).toBeGreaterThan(0);
  expect((await text(open(request('/16')))).length).toBeGreaterThan(16 * MIB);
});

test('delivers a single response larger than the limit to a client that reads it', async () => {
  const { open } = await aGenerousListener();
  const reader = open(request('/160'));
  let taken = 0;
  reader.on('data', (chunk: Buffer) => (taken += chunk.length));
  await once(reader, 'close');

  expect(taken).toBeGreaterThan(160 * MIB);
});

test('delivers the whole response to a slow reader, however many clients read nothing', async () => {
  const { answers, open } = await aGenerousListener();
  const reader = open(request('/16'));
  let taken = 0;
  reader.on('data', (chunk: Buffer) => {
    taken += chunk.length;
    // Stops reading until the other clients have sent their requests.
    if (taken > 8 * MIB && answers.length === 1) reader.pause();
  });
  await vi.waitFor(() => expect(taken).toBeGreaterThan(8 * MIB), SOON);
  for (let i = 0; i < 20; i++) open(request('/16')).pause();
  await vi.waitFor(() => expect(answers).toHaveLength(21), SOON);
  reader.resume();
  await once(reader, 'close');

  expect(taken).toBeGreaterThan(16 * MIB);
});

test('closes stalled responses first, even if other clients have more bytes', () => {
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

test('without stalled responses, closes a response of the address with the most bytes: the one with the most unsent bytes, except the largest and the newest', () => {
  const { note } = untaken();
  const others = [note('other', 32), note('third', 32)];
  const many = [40, 32, 32].map((mib) => note('many', mib));
  many[1]?.take(2);
  many[2]?.take(1);
  const last = note('many', 32);

  expect(many.map(({ destroyed }) => destroyed)).toEqual([false, false, true]);
  expect([...others, last].map(({ destroyed }) => destroyed)).toEqual([false, false, false]);
});

test('a large response closes no more of the other responses than necessary', () => {
  const { note } = untaken();
  const small = note('small', 32);
  const large = note('large', 256);
  const last = note('last', 32);

  expect([small, large, last].map(({ destroyed }) => destroyed)).toEqual([false, false, false]);
});

/** Returns responses that clients read when the test decides, and a clock that the test moves. */
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
