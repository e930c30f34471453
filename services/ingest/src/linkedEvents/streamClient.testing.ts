/**
 * Test support: a client of the stream that follows the rules of the standard. The client keeps all messages and the last id.
 */
import { expect, vi } from 'vitest';
import type { Reader } from './stream.testing.ts';

export interface Message {
  readonly event: string;
  readonly id: string;
  readonly data: string;
}

export interface Followed {
  readonly status: number;
  readonly headers: Headers;
  readonly messages: readonly Message[];
  /** Link ids of the messages, in the order of arrival. */
  linkIds(): string[];
  /** Last id that the client received, including ids of messages without data. */
  lastId(): string;
  /** Describes how the stream ended. Undefined if the stream is open. */
  end(): 'whole' | 'broken' | undefined;
  close(): void;
}

export async function follow(
  baseUrl: string,
  { token }: Reader,
  at: { from?: string; lastEventId?: string } = {},
): Promise<Followed> {
  const abort = new AbortController();
  const query = at.from === undefined ? '' : `?from=${encodeURIComponent(at.from)}`;
  const response = await fetch(`${baseUrl}/v1/linked-events${query}`, {
    headers: {
      Authorization: `Bearer ${token}`,
      ...(at.lastEventId === undefined ? {} : { 'Last-Event-ID': at.lastEventId }),
    },
    signal: abort.signal,
  });
  const messages: Message[] = [];
  const seen: { lastId: string; end?: 'whole' | 'broken' } = { lastId: '' };
  const read = async (): Promise<void> => {
    let buffered = '';
    for await (const text of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
      const blocks = (buffered + text).split('\n\n');
      buffered = blocks.pop() ?? '';
      for (const block of blocks) {
        const { event, id, data } = messageOf(block);
        seen.lastId = id;
        if (data !== undefined) messages.push({ event, id, data });
      }
    }
  };
  read().then(
    () => {
      seen.end = 'whole';
    },
    () => {
      seen.end = 'broken';
    },
  );
  return {
    status: response.status,
    headers: response.headers,
    messages,
    linkIds: () => messages.map(({ data }) => JSON.parse(data).linkId),
    lastId: () => seen.lastId,
    end: () => seen.end,
    close: () => abort.abort(),
  };
}

/** Waits until at least `count` messages have arrived. */
export async function untilHas({ messages }: Followed, count: number): Promise<void> {
  await until(() => expect(messages.length).toBeGreaterThanOrEqual(count));
}

/** Waits until the expectation holds. */
export async function until(expectation: () => void | Promise<void>): Promise<void> {
  await vi.waitFor(expectation, { timeout: 10_000, interval: 10 });
}

/** Parses a message. The server ends lines only with LF. */
function messageOf(block: string): { event: string; id: string; data: string | undefined } {
  const valuesOf = (name: string): string[] =>
    block
      .split('\n')
      .filter((line) => line.startsWith(`${name}: `))
      .map((line) => line.slice(name.length + 2));
  const data = valuesOf('data');
  return {
    event: valuesOf('event').join(),
    id: valuesOf('id').join(),
    data: data.length === 0 ? undefined : data.join('\n'),
  };
}
