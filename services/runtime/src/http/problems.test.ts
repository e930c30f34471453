/** Tests responses to malformed requests, and the memory of a rejection. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import type { RejectionReason } from '../process/listener/rejections.ts';
import { malformedRequest, rejectLimitedAddresses } from './problems.ts';
import { Rejected } from './rejected.ts';

test.each<[RejectionReason, number, string, RegExp]>([
  ['malformed', 400, 'invalid_request', /not valid HTTP, or its head is too large$/],
  ['tooSlow', 408, 'request_timeout', /took too long/],
  ['smallChunks', 400, 'invalid_request', /small chunks.* 4096 are allowed, and one more per 256 bytes$/],
])('explains why a request could not be parsed: %s', (why, status, code, detail) => {
  const refusal = malformedRequest(why);
  expect(refusal.status).toBe(status);
  expect(JSON.parse(refusal.body)).toMatchObject({ status, code, detail: expect.stringMatching(detail) });
});

test('a rejection has no stack, but its cause and every other error do', () => {
  const cause = new Error('of ours');
  const { stack, message } = new Rejected('invalid_request', 'not so', { cause });
  expect([stack, message]).toEqual(['Rejected: not so', 'not so']);
  for (const { stack: kept } of [cause, new Error('a later one')]) expect(kept).toContain('problems.test.ts');
});

test('answers a request of a rejected address before any route, with the headers of every answer', () => {
  const handled: unknown[] = [];
  const rejected = new Rejected('rate_limited', 'too many', { headers: { 'Retry-After': '30' } });
  const limit = { rejectionOf: ({ url }: IncomingMessage) => (url === '/good' ? undefined : rejected) };
  const handler = rejectLimitedAddresses(
    (request) => handled.push(request.url),
    limit,
    () => ({ Vary: 'Origin' }),
  );
  const said: unknown[] = [];
  const response = {
    writeHead: (...told: unknown[]) => said.push(...told),
    end: (body: string) => said.push(body),
  };
  for (const url of ['/good', '/bad'])
    handler({ url, headers: {} } as IncomingMessage, response as unknown as ServerResponse);

  expect(handled).toEqual(['/good']);
  expect(said).toEqual([
    429,
    expect.objectContaining({
      Vary: 'Origin',
      'Retry-After': '30',
      'Content-Type': 'application/problem+json',
    }),
    expect.stringContaining('"code":"rate_limited"'),
  ]);
});
