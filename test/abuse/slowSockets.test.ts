/** Tests connections that send incomplete requests while a game sends events. */
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { anEvent, type TestProject } from '../e2e/builders.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { isLong, recordFigure } from './figures.ts';
import { memoryMib } from './product.ts';

const SOCKETS = isLong ? 5_000 : 500;
const MAX_GROWTH_MIB = isLong ? 256 : 64;

const shared = ownProduct();
const sockets: Socket[] = [];
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

afterAll(() => {
  for (const socket of sockets) socket.destroy();
});

/** Opens a socket that stops in the header (`half` 0) or in the body of a request with a valid token. */
function slowSocket(half: number): Promise<void> {
  const { hostname, port } = new URL(shared.product.credentials.baseUrl);
  const head = `POST /v1/ingest/events HTTP/1.1\r\nHost: ${hostname}\r\nX-Slow: `;
  const body =
    `POST /v1/ingest/events HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${game.token}\r\n` +
    'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n[';
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () =>
      socket.write(half === 0 ? head : body, () => resolve()),
    );
    // The product may reject or close the connection.
    socket.on('error', () => resolve());
    sockets.push(socket);
  });
}

test(`answers other requests immediately while ${SOCKETS} sockets have sent half a request`, async () => {
  const victim = await shared.aProject({ revision: 'A' });
  const send = () => victim.post([anEvent({ sessionId: victim.sessionId })]);
  expect((await send()).status).toBe(201);
  const before = memoryMib(shared.product.pid) ?? 0;
  for (let i = 0; i < SOCKETS; i += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, k) => slowSocket((i + k) % 2)));
    expect((await send()).status).toBe(201);
  }
  const growth = Math.max(0, Math.round((memoryMib(shared.product.pid) ?? 0) - before));
  expect(growth).toBeLessThanOrEqual(MAX_GROWTH_MIB);
  for (const socket of sockets) socket.destroy();
  expect((await send()).status).toBe(201);
  recordFigure('Slow sockets', {
    tried: `${SOCKETS} sockets with half a header or one byte of a body`,
    held: `another tenant’s events all get 201 at once; memory +${growth} MiB`,
  });
});
