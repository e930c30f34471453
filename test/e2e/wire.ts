/** A connection to the product through a raw socket. It can withhold a body, send a body in chunks, and send several requests. */
import { connect, type Socket } from 'node:net';

export interface WireRequest {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string;
  /**
   * With `held back`, the body is announced by Content-Length and never sent. With `chunked`, the request has no Content-Length.
   */
  readonly sending?: 'whole' | 'chunked' | 'held back';
}

export interface WireAnswer {
  readonly status: number;
  /** Headers of the answer by their names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
}

export interface Wire {
  /** Sends a request and returns the answer. Rejects if the product closes the connection without an answer. */
  ask(request: WireRequest): Promise<WireAnswer>;
  close(): void;
}

const CHUNK_BYTES = 64 * 1024;

export async function openWire(baseUrl: string): Promise<Wire> {
  const { hostname, port, host } = new URL(baseUrl);
  const socket = connect(Number(port), hostname);
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
  });
  const incoming = socket[Symbol.asyncIterator]();
  let rest = Buffer.alloc(0);
  return {
    ask: async (request) => {
      const sent = writeRequest(socket, host, request);
      let answer: { answer: WireAnswer; end: number } | undefined;
      while (answer === undefined) {
        const next = await incoming.next();
        if (next.done === true)
          throw new Error(`the connection was closed after ${JSON.stringify(rest.toString())}`);
        rest = Buffer.concat([rest, next.value]);
        answer = parseAnswer(rest, request.method === 'HEAD');
      }
      rest = rest.subarray(answer.end);
      await sent;
      return answer.answer;
    },
    close: () => void socket.destroy(),
  };
}

/** Sends the request. Resolves when the whole request is sent. The response may arrive before the end of the request. */
function writeRequest(socket: Socket, host: string, request: WireRequest): Promise<void> {
  const { method = 'POST', path, headers = {}, sending = 'whole' } = request;
  const body = Buffer.from(request.body ?? '');
  const framing = sending === 'chunked' ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const head = [`${method} ${path} HTTP/1.1`, `Host: ${host}`, ...lines, framing].join('\r\n');
  socket.write(`${head}\r\n\r\n`);
  if (sending === 'held back') return Promise.resolve();
  return new Promise((resolve) => {
    socket.write(sending === 'chunked' ? chunked(body) : body, () => resolve());
  });
}

function chunked(body: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += CHUNK_BYTES) {
    const chunk = body.subarray(at, at + CHUNK_BYTES);
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'));
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')]);
}

function parseAnswer(bytes: Buffer, isHead: boolean): { answer: WireAnswer; end: number } | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n');
  const headers = new Map(
    lines.map((line): [string, string] => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  const start = headEnd + 4;
  const end = start + (isHead ? 0 : Number(headers.get('content-length') ?? 0));
  if (bytes.length < end) return undefined;
  return {
    answer: { status: Number(statusLine.split(' ')[1]), headers, text: bytes.toString('utf8', start, end) },
    end,
  };
}
