/** A simulated Questlog server with configurable responses and failures. */
import { afterEach, beforeEach, vi } from 'vitest';
import { type ClientProblem, type Game, type GameOptions, start } from '../client.ts';

export interface Sent {
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly text: string;
  readonly keepalive: boolean;
  readonly signal: AbortSignal;
}

/** Returns the response to a request. */
type Answer = (sent: Sent) => Response | Promise<Response>;

export class FakeServer {
  readonly sent: Sent[] = [];
  readonly #next: Answer[] = [];
  readonly problems: ClientProblem[] = [];
  #usual: Answer = accepted;

  /** Sets the responses to the next requests, one response per request. */
  next(...answers: Answer[]): void {
    this.#next.push(...answers);
  }

  /** Sets the response to all requests after the responses of `next`. */
  always(answer: Answer): void {
    this.#usual = answer;
  }

  start(options: Partial<GameOptions> = {}): Promise<Game> {
    return start({
      ...{ url: 'https://telemetry.example/', token: 'a-token', fetch: this.#fetch },
      onProblem: (problem) => void this.problems.push(problem),
      ...options,
    });
  }

  /** Returns the reported problems. Omits problems of the connection. */
  losses(): ClientProblem[] {
    return this.problems.filter(({ kind }) => kind !== 'unreachable' && kind !== 'reached');
  }

  /** Returns the events of each batch that the server received. */
  batches(): { eventType: string; sequence: number; payload: unknown; sessionId: string }[][] {
    return this.sent.filter(({ path }) => path.endsWith('/events')).map(({ text }) => JSON.parse(text));
  }

  keys(): (string | undefined)[] {
    return this.sent.flatMap(({ path, headers }) =>
      path.endsWith('/events') ? [headers['Idempotency-Key']] : [],
    );
  }

  readonly #fetch: typeof fetch = async (address, init = {}) => {
    const { body, signal } = init;
    if (!(body instanceof Uint8Array || body instanceof Blob)) throw new TypeError('a body of bytes');
    const headers = Object.fromEntries(new Headers(init.headers));
    const text = body instanceof Blob ? 'a file' : new TextDecoder().decode(body);
    const sent: Sent = {
      path: new URL(String(address)).pathname,
      headers: { ...headers, 'Idempotency-Key': headers['idempotency-key'] ?? '' },
      text,
      keepalive: init.keepalive ?? false,
      signal: signal ?? new AbortController().signal,
    };
    this.sent.push(sent);
    return await (this.#next.shift() ?? this.#usual)(sent);
  };
}

export const accepted: Answer = ({ path, text }) => {
  if (text === 'a file') return json(200, {});
  const body = JSON.parse(text);
  if (!path.endsWith('/events')) return json(201, { id: body.id ?? body.clientRequestId });
  return json(
    207,
    body.map((_: unknown, n: number) => ({ id: `event-${n}` })),
  );
};

export const uploadTarget: Answer = () =>
  json(201, { uploadId: 'an-upload', uploadUrl: 'https://files.example/an-upload' });

export const neverAnswers: Answer = ({ signal }) =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

export const networkFailure: Answer = () => Promise.reject(new TypeError('fetch failed'));

/** Returns the response of a proxy. The response has no problem document. */
export function proxyAnswer(status: number): Answer {
  return () => new Response('<html>not here', { status });
}

export function rejected(status: number, code: string, headers: Record<string, string> = {}): Answer {
  const type = `urn:questlog:problem:${code}`;
  return () => json(status, { type, code, message: `it is ${code}` }, headers);
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers });
}

/** Advances the fake clock and runs the timers that are due. */
export async function advance(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

/**
 * Installs a fake clock for each test of the file. Disables compression, because the compression thread does not follow the fake
 * clock.
 */
export function useFakedClock(): void {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
    vi.stubGlobal('CompressionStream', undefined);
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
  });
}
