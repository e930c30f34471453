/** Runs the overloading tenant in a separate thread, so that it does not delay the measured load. */
import { connect } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { due } from '../pace.ts';
import { closedLoad, openLoad } from '../path/pathLoad.ts';
import type { Attack } from './attacks.ts';

const REOPENED_AFTER_MS = 500;
const MORE = Buffer.alloc(64 * 1024, ' ');
const BEFORE_AN_ANSWER = /(?=HTTP\/1\.1 \d{3} )/;

const attack: Attack = workerData;
const answers: Record<string, number> = {};
let withoutRetryAfter = 0;
const count = (status: number, head: string): void => {
  answers[status] = (answers[status] ?? 0) + 1;
  if (status === 503 && !/^retry-after:/im.test(head)) withoutRetryAfter++;
};
if (attack.kind === 'sockets') await openSockets(attack);
else if (attack.kind === 'newConnections') await openConnections(attack);
else await sendRequests(attack);
parentPort?.postMessage({ answers, withoutRetryAfter });

async function sendRequests({ perSecond, ...of }: Attack & { kind: 'requests' }): Promise<void> {
  const target = { ...of, status: 0, warmUpMs: 0, onAnswer: count };
  if (perSecond !== 'full speed') await openLoad(target, perSecond, 0);
  else await closedLoad(target);
}

/** Opens the sockets again after the server closes them. */
async function openSockets({
  url,
  bytes,
  goesOn,
  connections,
  forMs,
}: Attack & { kind: 'sockets' }): Promise<void> {
  const { hostname, port } = new URL(url);
  let isOver = false;
  const open = (): void => {
    if (isOver) return;
    // Continues to send after the server's response and after the server closes its side.
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: goesOn });
    let said = '';
    const goOn = (): void => {
      while (socket.writable && socket.write(MORE));
    };
    socket.write(bytes);
    if (goesOn) {
      socket.on('drain', goOn);
      goOn();
    }
    socket.on('data', (chunk) => (said += chunk));
    // The close event reports the failure.
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      if (isOver) return;
      for (const answer of said.split(BEFORE_AN_ANSWER))
        count(Number(answer.slice('HTTP/1.1 '.length, 'HTTP/1.1 201'.length)), answer);
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

async function openConnections({
  url,
  bytes,
  connections: perSecond,
  forMs,
}: Attack & { kind: 'newConnections' }): Promise<void> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<ReturnType<typeof connect>>();
  const beganMs = performance.now();
  for (let i = 0; i < (perSecond * forMs) / 1_000; i++) {
    await due(beganMs + (i * 1_000) / perSecond);
    const socket = connect({ port: Number(port), host: hostname });
    sockets.add(socket);
    let said = '';
    socket.write(bytes);
    socket.on('data', (chunk) => (said += chunk));
    // The close event follows.
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      for (const answer of said.split(BEFORE_AN_ANSWER))
        count(Number(answer.slice('HTTP/1.1 '.length, 'HTTP/1.1 201'.length)), answer);
    });
  }
  for (const socket of sockets) socket.destroy();
}
