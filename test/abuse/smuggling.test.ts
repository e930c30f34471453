/** Tests request smuggling: framings that two servers can read differently, each followed by a second request that must not be answered. */
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { anEvent } from '../e2e/builders.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { recordFigure } from './figures.ts';

const CODINGS = [
  ...['gzip, chunked', 'chunked, chunked', 'chunked, gzip', 'gzip', 'identity', 'identity, chunked'],
  ...['xchunked', 'chunkedx', '"chunked"', 'chunked;a=b', 'chunked, identity', 'chunked\0', '\vchunked'],
].map((coding) => `Transfer-Encoding: ${coding}`);
const NAMES = [
  ...['Transfer-Encoding : chunked', 'Transfer-Encoding\t: chunked', 'Transfer-Encoding\0: chunked'],
  ...['Transfer Encoding: chunked', 'Transfer-Encoding\r: chunked', 'Transfer-Encoding chunked'],
  'X: y\r\n Transfer-Encoding: chunked',
];
const LENGTHS = [
  ...['+5', '-5', '5, 5', '5,44', '0x5', '5e0', '5 5', '5.0', '5\v', '5\0', '', '99999999999999999999999'],
  ...['5\r\nContent-Length: 44', '5\r\nContent-Length: 5', '0\r\nContent-Length: 44'],
].map((length) => `Content-Length: ${length}`);
const PATHS = ['POST /v1/ingest/events', 'GET /health'];
const BEHIND = '0\r\n\r\nGET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n';

/** Each framing alone, and before and after a field with the other kind of framing. */
const framings = [
  ...[...CODINGS, ...NAMES].flatMap((field) => beside(field, 'Content-Length: 5')),
  ...LENGTHS.flatMap((field) => beside(field, 'Transfer-Encoding: chunked')),
];
const shapes = PATHS.flatMap((line) =>
  framings.map((framing) => `${line} HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n${BEHIND}`),
);

const shared = ownProduct();

test(`answers ${shapes.length} shapes with a 400, closes the connection, and ignores the bytes after them`, async () => {
  const { hostname, port } = new URL(shared.product.credentials.baseUrl);
  const wrong: string[] = [];
  for (const shape of shapes) {
    const socket = connect(Number(port), hostname, () => socket.write(shape, 'latin1'));
    const said = await text(socket);
    const statuses = said.match(/HTTP\/1\.1 \d+/g)?.join(', ');
    if (statuses !== 'HTTP/1.1 400') wrong.push(`${JSON.stringify(shape)}: ${statuses}`);
  }
  expect(wrong).toEqual([]);
  const game = await shared.aProject({ revision: 'A' });
  expect((await game.post([anEvent({ sessionId: game.sessionId })])).status).toBe(201);
  recordFigure('Ambiguous HTTP framing', {
    tried: `${shapes.length} forms, each followed by a request`,
    held: '400, and the connection closes',
  });
});

function beside(field: string, other: string): string[] {
  return [field, `${field}\r\n${other}`, `${other}\r\n${field}`];
}
