/** Streams of linked events that a test holds open, so that a limited resource is almost exhausted. */
import { STREAM_LIMITS } from '@questlog/ingest/linkedEvents/streams';
import { aProject } from '../e2e/builders.ts';
import type { Reached } from '../e2e/product.ts';

const STREAMS = STREAM_LIMITS.maxStreams - 4;

/** Opens 60 of the 64 streams that an ingest allows. Returns a function that closes the streams. */
export async function holdStreams(product: Reached): Promise<() => void> {
  const held = new AbortController();
  // Node closes the connection of a response that nothing refers to.
  const streams: Response[] = [];
  const url = `${product.credentials.baseUrl}/v1/linked-events`;
  while (streams.length < STREAMS) {
    const { token } = await aProject(product);
    const open = () => fetch(url, { headers: { Authorization: `Bearer ${token}` }, signal: held.signal });
    // Ingest rejects further streams of a tenant that already uses a large share.
    for (let stream = await open(); stream.ok && streams.push(stream) < STREAMS; ) stream = await open();
  }
  return () => {
    held.abort();
    streams.length = 0;
  };
}
