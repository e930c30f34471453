/** Tests floods from one address without a token, while another tenant sends requests from the same address. */
import { availableParallelism } from 'node:os';
import { expect, test } from 'vitest';
import { attacked, withoutToken } from '../bench/fairness/attacks.ts';
import { due } from '../bench/pace.ts';
import { openLoad } from '../bench/path/pathLoad.ts';
import { RawConnection, requestOf } from '../bench/path/rawHttp.ts';
import { anEvent, type TestProject } from '../e2e/builders.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { isLong, recordFigure } from './figures.ts';

const shared = ownProduct();
/**
 * Separate product for the only flood that exceeds the limit of its address, because the product then rejects the address for
 * 30 s (decision 0026).
 */
const limited = ownProduct();
const [SECONDS, LEAD_MS, WRITES_PER_SECOND] = [isLong ? 12 : 2, 1_000, 100];
/** Delay of some requests on a machine with fewer cores than processes, independent of the server. */
const NOISE_MS = availableParallelism() > 2 ? 20 : 60;

const urlOf = ({ product }: typeof shared): string => `${product.credentials.baseUrl}/v1/ingest/events`;

async function p99Of(url: string, tenant: TestProject, seconds: number): Promise<number> {
  const body = Buffer.from(JSON.stringify([anEvent({ sessionId: tenant.sessionId })]));
  const requests = [requestOf(url, tenant.token, body)];
  const target = { url, status: 201, requests, connections: 8, warmUpMs: 500, forMs: seconds * 1_000 };
  const { p99Ms, refused, timedOut } = await openLoad(target, WRITES_PER_SECOND);
  expect({ refused, timedOut }).toEqual({ refused: 0, timedOut: 0 });
  return p99Ms;
}

/** Maximum number of rounds. A harmful flood delays the requests of each round, a stall of the machine delays only one round. */
const ROUNDS = 5;

const CHUNKS = `POST /v1/ingest/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(4_000)}0\r\n\r\n`;
const LARGE_HEAD = `GET /v1/quota HTTP/1.1\r\nHost: x\r\n${'a:\r\n'.repeat(1_900)}\r\n`;

test.each([
  ['40 connections a second, each with 1,600 requests', limited, 40, withoutToken(1_600)],
  ['40 connections a second, each with 64 KiB of small chunks', shared, 40, Buffer.from(CHUNKS.repeat(3))],
  ['40 connections a second, each with 16 heads of 7 KiB', shared, 40, Buffer.from(LARGE_HEAD.repeat(16))],
  ['400 connections a second that send nothing that is HTTP', shared, 400, Buffer.from('NOT HTTP\r\n\r\n')],
])('another tenant waits at most twice as long: %s', async (flood, own, connections, bytes) => {
  const url = urlOf(own);
  const victim = await own.aProject({ revision: 'A' });
  const forMs = LEAD_MS + (SECONDS + 1) * 1_000;
  let [alone, duringFlood] = [0, Number.POSITIVE_INFINITY];
  for (let round = 1; round <= ROUNDS && duringFlood > Math.max(2 * alone, NOISE_MS); round += 1) {
    const attack = attacked({ kind: 'newConnections', url, connections, bytes, forMs });
    await due(performance.now() + LEAD_MS);
    duringFlood = await p99Of(url, victim, SECONDS);
    const { answers } = await attack;
    expect(answers[201]).toBeUndefined();
    // A delay below NOISE_MS needs no comparison. The long form records both delays.
    if (isLong || duringFlood > NOISE_MS) alone = await p99Of(url, victim, SECONDS);
  }

  expect(duringFlood).toBeLessThanOrEqual(Math.max(2 * alone, NOISE_MS));
  recordFigure(`Floods without a token: ${flood}`, {
    tried: `${SECONDS} s during ${WRITES_PER_SECOND} events per second of another tenant from the same address`,
    held: `all events get 201; p99 ${duringFlood.toFixed(1)} ms, without the flood ${alone.toFixed(1)} ms`,
  });
});

test('1,000 clients of one address, 50 of them without a valid token, get no 429', async () => {
  const game = await shared.aProject({ revision: 'A' });
  const url = urlOf(shared);
  const body = Buffer.from(JSON.stringify([anEvent({ sessionId: game.sessionId })]));
  const [good, expired] = [game.token, 'expired'].map((token) => requestOf(url, token, body));
  const answers: Record<number, number> = {};
  const clients = Array.from({ length: 1_000 }, (_, i) => ({
    lane: new RawConnection(url),
    request: i % 20 === 0 ? expired : good,
  }));
  for (let round = 0; round < 5; round += 1) {
    await Promise.all(
      clients.map(
        ({ lane, request }) =>
          new Promise<void>((resolve) =>
            lane.send(request ?? Buffer.alloc(0), (status) => {
              answers[status] = (answers[status] ?? 0) + 1;
              resolve();
            }),
          ),
      ),
    );
  }
  for (const { lane } of clients) lane.close();

  expect(answers).toEqual({ 201: 4_750, 401: 250 });
});
