/** A kept connection that costs as little as it can beside the server: prebuilt requests, answers whose bytes are counted. */
import { connect, type Socket } from 'node:net';

/** Prebuilt, so that nothing is left to do when it is due. */
export function requestOf(url: string, token: string, body: Buffer): Buffer {
  return Buffer.concat([headOf('POST', url, token, body.length), body]);
}

/** @param bytes of the JSON that follows, where any does. */
export function headOf(method: 'GET' | 'POST', url: string, token: string, bytes?: number): Buffer {
  const { host, pathname, search } = new URL(url);
  const head = [`${method} ${pathname}${search} HTTP/1.1`, `Host: ${host}`, `Authorization: Bearer ${token}`];
  if (bytes !== undefined) head.push('Content-Type: application/json', `Content-Length: ${bytes}`);
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n`);
}

const HEAD_END = '\r\n\r\n';
const NOTHING = Buffer.alloc(0);
/** Stands for an answer where the connection broke. */
export const BROKEN = 0;

/** @param head the status line and the headers; empty where the connection broke. */
export type OnAnswer = (status: number, head: string) => void;

export class RawConnection {
  readonly #url: URL;
  #socket: Socket | undefined;
  #onAnswer: OnAnswer | undefined;
  #head: Buffer = NOTHING;
  #status = BROKEN;
  #told = '';
  #isLast = false;
  /** Of the answer's body; undefined while its head is not whole. */
  #bytesLeft: number | undefined;

  constructor(url: string) {
    this.#url = new URL(url);
  }

  /** Resolves when the connection stands; where it cannot, the first request tells. */
  async connect(): Promise<void> {
    const socket = this.#open();
    this.#socket = socket;
    await new Promise<void>((resolve) => socket.once('connect', resolve).once('close', () => resolve()));
  }

  /** One at a time. @param onAnswer called once with its status, or with `BROKEN`. */
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
    // What went wrong is told by its end.
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
    // Each peer tells the length. One that stops doing so is seen by what it refuses, not by a client that costs more.
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
      // The server ends it: what came next would be lost.
      this.#isLast = false;
      this.#socket?.destroy();
      this.#socket = undefined;
    }
    onAnswer?.(status, told);
  }
}
