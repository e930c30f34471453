/** Tokens for brokers: requests, caching, and errors. */
import { createServer, type IncomingMessage } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { Unavailable } from '../../../process/errors.ts';
import { oauthTokens } from './oauthTokens.ts';

const CREDENTIALS = { clientId: 'game:1', clientSecret: 'so secret', scope: 'kafka' };

interface Asked {
  readonly authorization: string | undefined;
  readonly body: string;
}

async function aTokenServer(answer: (count: number) => { status: number; body: string }) {
  const requested: Asked[] = [];
  const server = createServer((request, response) => {
    void textOf(request).then((body) => {
      requested.push({ authorization: request.headers.authorization, body });
      const { status, body: text } = answer(requested.length);
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { requested, tokenUrl: `http://127.0.0.1:${port}/token` };
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}

const issued = (count: number) => ({
  status: 200,
  body: JSON.stringify({ access_token: `token ${count}`, token_type: 'bearer', expires_in: 3600 }),
});

test('requests a token once and reuses it until shortly before it expires', async () => {
  const { requested, tokenUrl } = await aTokenServer(issued);
  let nowMs = 0;
  const token = oauthTokens({ ...CREDENTIALS, tokenUrl }, () => nowMs);
  expect(await Promise.all([token(), token(), token()])).toEqual(['token 1', 'token 1', 'token 1']);
  nowMs = 3_539_000;
  expect(await token()).toBe('token 1');
  nowMs = 3_541_000;
  expect(await token()).toBe('token 2');
  expect(requested).toHaveLength(2);
  const basic = Buffer.from(requested[0]?.authorization?.replace('Basic ', '') ?? '', 'base64').toString();
  expect(basic).toBe('game%3A1:so%20secret');
  expect(requested[0]?.body).toBe('grant_type=client_credentials&scope=kafka');
});

test('reports a rejected request without the secret, and requests again', async () => {
  const { requested, tokenUrl } = await aTokenServer((count) =>
    count === 1 ? { status: 401, body: '{"error":"invalid_client"}' } : issued(count),
  );
  const token = oauthTokens({ ...CREDENTIALS, tokenUrl });
  const rejected = await token().catch((error: unknown) => error);
  expect(rejected).toBeInstanceOf(Unavailable);
  expect(String(rejected)).toContain('401');
  expect(String(rejected)).not.toContain('so secret');
  expect(await token()).toBe('token 2');
  expect(requested).toHaveLength(2);
});
