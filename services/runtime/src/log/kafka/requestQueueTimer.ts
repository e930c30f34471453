/**
 * Mends a timer of kafkajs 2.2.4: after the first answer every connection wakes a thousand times a second for requests
 * that wait where none do, with a negative time that Node 24 warns of. Idle, that is 2.5 % of a core a broker.
 */
import { createRequire } from 'node:module';

/** For the whole process, once. */
export function mendRequestQueueTimer(): void {
  const { prototype } = requestQueue;
  if (isMended.has(prototype)) return;
  isMended.add(prototype);
  const { scheduleCheckPendingRequests } = prototype;
  prototype.scheduleCheckPendingRequests = function schedule(this: RequestQueue) {
    // It is called again with every request that must wait.
    if (this.pending.length > 0) scheduleCheckPendingRequests.call(this);
  };
}

interface RequestQueue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests(): void;
}

/** Not part of the package's types; the dependency's version is exact. */
const requestQueue: { readonly prototype: RequestQueue } = createRequire(import.meta.url)(
  'kafkajs/src/network/requestQueue',
);

const isMended = new WeakSet<RequestQueue>();
