/** kafkajs sets a timer only for pending requests. */
import { createRequire } from 'node:module';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { patchRequestQueueTimer } from './patches.ts';

/** Members that a connection of kafkajs uses. */
interface RequestQueue {
  push(request: object): void;
  fulfillRequest(answer: object): void;
  maybeThrottle(throttleMs: number): void;
}

beforeEach(() => {
  vi.useFakeTimers();
  patchRequestQueueTimer();
});

afterEach(() => {
  vi.useRealTimers();
});

test('sets no timer after a response without pending requests', () => {
  const { queue, push } = aQueue();
  push(1);
  queue.fulfillRequest({ correlationId: 1, payload: null, size: 0 });
  expect(vi.getTimerCount()).toBe(0);
});

test('sends a pending request after the previous response or the throttle time', () => {
  const { queue, push, sent } = aQueue();
  push(1);
  push(2);
  expect(sent).toEqual([1]);
  queue.fulfillRequest({ correlationId: 1, payload: null, size: 0 });
  expect(sent).toEqual([1, 2]);
  queue.maybeThrottle(500);
  queue.fulfillRequest({ correlationId: 2, payload: null, size: 0 });
  push(3);
  expect(sent).toEqual([1, 2]);
  vi.advanceTimersByTime(600);
  expect(sent).toEqual([1, 2, 3]);
  vi.runAllTimers();
  expect(vi.getTimerCount()).toBe(0);
});

function aQueue() {
  const RequestQueueClass: new (options: object) => RequestQueue = createRequire(import.meta.url)(
    'kafkajs/src/network/requestQueue',
  );
  const queue = new RequestQueueClass({
    maxInFlightRequests: 1,
    requestTimeout: 1000,
    enforceRequestTimeout: false,
    clientId: 'test',
    broker: 'nowhere:1',
    logger: { debug: () => {}, warn: () => {} },
  });
  const sent: number[] = [];
  const push = (correlationId: number) =>
    queue.push({
      entry: { correlationId, resolve: () => {}, reject: () => {} },
      expectResponse: true,
      requestTimeout: null,
      sendRequest: () => sent.push(correlationId),
    });
  return { queue, sent, push };
}
