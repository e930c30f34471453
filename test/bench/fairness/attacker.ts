/** Runs the overloading tenant in a separate thread, so that it does not delay the measured load. */
import { connect, type Socket } from 'node:net';
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

/** Opens a number of sockets at once, and opens each socket again after the server closes it. */
async function openSockets(of: Attack & { kind: 'sockets' }): Promise<void> {
  const sockets = new Set<Socket>();
  let isOver = false;
  const open = (): void => {
    if (isOver) return;
    const socket = openSocket(of, of.goesOn, sockets);
    socket.on('close', () => void due(performance.now() + REOPENED_AFTER_MS).then(open));
  };
  for (let i = 0; i < of.connections; i++) open();
  await due(performance.now() + of.forMs);
  isOver = true;
  for (const socket of sockets) socket.destroy();
}

/** Opens a number of sockets per second. */
async function openConnections(of: Attack & { kind: 'newConnections' }): Promise<void> {
  const sockets = new Set<Socket>();
  const beganMs = performance.now();
  for (let i = 0; i < (of.connections * of.forMs) / 1_000; i++) {
    await due(beganMs + (i * 1_000) / of.connections);
    openSocket(of, false, sockets);
  }
  for (const socket of sockets) socket.destroy();
}

/**
 * Sends the bytes on a new socket, and counts the responses when the server has closed the socket.
 * @param goesOn continues to send after the server's response and after the server closes its side
 * @param sockets open sockets
 */
function openSocket(
  { url, bytes }: Attack & { bytes: Uint8Array },
  goesOn: boolean,
  sockets: Set<Socket>,
): Socket {
  const { hostname, port } = new URL(url);
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
    for (const answer of said.split(BEFORE_AN_ANSWER))
      count(Number(answer.slice('HTTP/1.1 '.length, 'HTTP/1.1 201'.length)), answer);
  });
  sockets.add(socket);
  return socket;
}
