/** A tenant that takes too much, in a thread of its own: it must not delay the load whose latency is measured. */
import { connect } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { due } from '../pace.ts';
import { openLoad } from '../path/pathLoad.ts';
import type { Attack } from './attacks.ts';

const REOPENED_AFTER_MS = 500;

const attack: Attack = workerData;
const answers: Record<string, number> = {};
let withoutRetryAfter = 0;
const count = (status: number, head: string): void => {
  answers[status] = (answers[status] ?? 0) + 1;
  if (status === 503 && !/^retry-after:/im.test(head)) withoutRetryAfter++;
};
if (attack.kind === 'held bodies') await holdBodies(attack);
else await openLoad({ ...attack, status: 0, warmUpMs: 0, onAnswer: count }, attack.perSecond, 0);
parentPort?.postMessage({ answers, withoutRetryAfter });

/** All but the last byte of each; one that is ended comes again. */
async function holdBodies({
  url,
  head,
  bytes,
  connections,
  forMs,
}: Attack & { kind: 'held bodies' }): Promise<void> {
  const { hostname, port } = new URL(url);
  const body = Buffer.alloc(bytes - 1, ' ');
  let isOver = false;
  const open = (): void => {
    if (isOver) return;
    const socket = connect(Number(port), hostname);
    let said = '';
    socket.write(head);
    socket.write(body);
    socket.on('data', (chunk) => (said += chunk));
    // What went wrong is told by its end.
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      if (isOver) return;
      count(Number(said.slice('HTTP/1.1 '.length, 'HTTP/1.1 201'.length)), said);
      void due(performance.now() + REOPENED_AFTER_MS).then(open);
    });
    sockets.add(socket);
  };
  const sockets = new Set<ReturnType<typeof connect>>();
  for (let i = 0; i < connections; i++) open();
  await due(performance.now() + forMs);
  isOver = true;
  for (const socket of sockets) socket.destroy();
}
