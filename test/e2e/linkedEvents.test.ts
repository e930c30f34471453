/** Tests the stream of linked events of the whole product. The stream ends when the product stops. */
import { expect, test } from 'vitest';
import { type Product, removeDataDir, startProduct } from './product.ts';

/** Time within which the product stops after SIGTERM, even while clients are connected. */
const STOPS_WITHIN_MS = 20_000;

test('a stop ends open streams cleanly, in time, and with status 0', async () => {
  const product = await startProduct();
  try {
    const stream = await openStream(product);
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toMatch(/^retry: \d+\nid: \S+\n\n$/);
    expect(stream.headers.get('content-type')).toBe('text/event-stream');
    expect(stream.headers.get('x-request-id')).not.toBeNull();

    const startedMs = performance.now();
    const stopped = product.stop();
    expect((await reader?.read())?.done).toBe(true);
    expect(await stopped).toBe(0);
    expect(performance.now() - startedMs).toBeLessThan(STOPS_WITHIN_MS);
  } finally {
    await product.kill();
    await removeDataDir(product);
  }
});

function openStream({ credentials }: Product): Promise<Response> {
  return fetch(`${credentials.baseUrl}/v1/linked-events?from=end`, {
    headers: { Authorization: `Bearer ${credentials.token}` },
  });
}
