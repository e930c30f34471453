/** Opens an HTTP listener for tests and raw TCP connections to the listener. */
import type { IncomingMessage, RequestListener } from 'node:http';
import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { listen } from '../listener/listen.ts';
import type { RejectionReason } from '../listener/rejections.ts';

export const MIB = 1024 * 1024;

interface Connecting {
  readonly allowHalfOpen?: boolean;
  /** Address of the client, such as 127.0.0.2. Different addresses simulate different clients. */
  readonly localAddress?: string;
}

/** Opens a listener and returns a function that connects to it. The body of a rejection is the reason of the rejection. */
export async function aListener(
  handler: RequestListener,
  mayTakeLong?: (request: IncomingMessage) => boolean,
) {
  const at = { host: '127.0.0.1', port: 0, settings: { host: 'HOST', port: 'PORT' } };
  const headers = { 'Content-Type': 'application/problem+json' };
  const rejectionFor = (reason: RejectionReason) => ({ status: 400, headers, body: `{"code":"${reason}"}` });
  const listener = await listen(handler, at, rejectionFor, mayTakeLong);
  onTestFinished(() => listener.close());
  const open = (sent: string, connecting: Connecting = {}): Socket => {
    const socket = connect({ port: listener.port, host: '127.0.0.1', ...connecting });
    onTestFinished(() => void socket.destroy());
    // Ignores a reset, which also ends the connection.
    socket.on('error', () => {});
    socket.write(sent);
    return socket;
  };
  return Object.assign(open, { close: () => listener.close() });
}

/** Returns everything that the connection receives until it ends. */
export async function allOf(socket: Socket): Promise<string> {
  let received = '';
  socket.on('data', (chunk) => (received += chunk));
  await new Promise((resolve) => socket.once('close', resolve));
  return received;
}
