/** A kept connection with little CPU cost: sends prebuilt requests and counts the bytes of responses. */
import { connect, type Socket } from 'node:net';

/** Builds a request in advance, so that sending needs no other work. */
export function requestOf(url: string, token: string, body: Buffer, headers: readonly string[] = []): Buffer {
  return Buffer.concat([headOf('POST', url, token, body.length, headers), body]);
}

/**
 * @param bytes length of the JSON body; undefined if there is no body
 * @param headers further header lines
 */
export function headOf(
  method: 'GET' | 'POST',
  url: string,
  token: string,
  bytes?: number,
  headers: readonly string[] = [],
): Buffer {
  const { host, pathname, search } = new URL(url);
  const head = [
    `${method} ${pathname}${search} HTTP/1.1`,
    `Host: ${host}`,
    `Authorization: Bearer ${token}`,
    ...headers,
  ];
  if (bytes !== undefined) head.push('Content-Type: application/json', `Content-Length: ${bytes}`);
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n`);
}

const HEAD_END = '\r\n\r\n';
const NOTHING = Buffer.alloc(0);
/** Status of a broken connection. */
export const BROKEN = 0;

/** @param head status line and headers; empty if the connection broke */
export type OnAnswer = (status: number, head: string) => void;

export class RawConnection {
  readonly #url: URL;
  #socket: Socket | undefined;
  #onAnswer: OnAnswer | undefined;
  #head: Buffer = NOTHING;
  #status = BROKEN;
  #told = '';
  #isLast = false;
  /** Remaining bytes of the body. Undefined until the header is complete. */
  #bytesLeft: number | undefined;

  constructor(url: string) {
    this.#url = new URL(url);
  }

  /** Resolves when the connection is open. If it fails, the first request reports the failure. */
  async connect(): Promise<void> {
    const socket = this.#open();
    this.#socket = socket;
    await new Promise<void>((resolve) => socket.once('connect', resolve).once('close', () => resolve()));
  }

  /** Sends one request at a time. @param onAnswer called once with the status or `BROKEN` */
  send(request: Uint8Array, onAnswer: OnAnswer): void {
    this.#onAnswer = onAnswer;
    this.#socket ??= this.#open();
    this.#socket.write(request);
  }

  close(): void {
    this.#socket?.destroy();
  }

  #open(): Socket {
    const socket = connect({ host: this.#url.hostname, port: Number(this.#url.port), noDelay: true });
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    // The close event reports the failure.
    socket.on('error', () => {});
    socket.on('close', () => {
      if (this.#socket !== socket) return;
      this.#socket = undefined;
      this.#answered(BROKEN);
    });
    return socket;
  }

  #take(chunk: Buffer): void {
    if (this.#bytesLeft === undefined) this.#takeHead(chunk);
    else this.#bytesLeft -= chunk.length;
    if (this.#bytesLeft === 0) this.#answered(this.#status);
  }

  #takeHead(chunk: Buffer): void {
    this.#head = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk]);
    const end = this.#head.indexOf(HEAD_END);
    if (end < 0) return;
    const text = this.#head.toString('latin1', 0, end);
    const length = /^content-length: *(\d+)/im.exec(text)?.[1];
    // Each peer sends a length. A response without one counts as broken, because other parsing would cost more.
    if (length === undefined) {
      this.#socket?.destroy();
      return;
    }
    this.#told = text;
    this.#isLast = /^connection: *close/im.test(text);
    this.#status = Number(text.slice('HTTP/1.1 '.length, 'HTTP/1.1 201'.length));
    this.#bytesLeft = Number(length) - (this.#head.length - end - HEAD_END.length);
  }

  #answered(status: number): void {
    const [onAnswer, told] = [this.#onAnswer, status === BROKEN ? '' : this.#told];
    this.#onAnswer = undefined;
    this.#head = NOTHING;
    this.#bytesLeft = undefined;
    if (this.#isLast) {
      // The server closes the connection, so the next request needs a new one.
      this.#isLast = false;
      this.#socket?.destroy();
      this.#socket = undefined;
    }
    onAnswer?.(status, told);
  }
}
