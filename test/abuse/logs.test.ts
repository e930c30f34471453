/** Tests that texts with control characters, in every field, cannot forge log entries or break a terminal. */
import { beforeAll, expect, test } from 'vitest';
import { anEvent, type TestProject } from '../e2e/builders.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { openWire } from '../e2e/wire.ts';
import { recordFigure } from './figures.ts';

const shared = ownProduct();
const tokens: string[] = [];
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
  const { credentials } = shared.product;
  tokens.push(game.token, credentials.token, credentials.adminToken, credentials.clickhouse.password);
});

const ESC = '\u001b';
const TEXTS = {
  NUL: 'a\u0000b',
  'a forged line': 'a\r\n{"level":50,"bug":true,"event":"forged_by_a_client"}\r\n',
  'a colour': `${ESC}[31mforged_by_a_client${ESC}[0m`,
  'a terminal title': `${ESC}]0;forged_by_a_client\u0007`,
  'a line separator': 'a\u2028forged_by_a_client\u2029\u0085\u009b31m',
};

test.each(Object.entries(TEXTS))('answers %s in every field without a 5xx', async (_, text) => {
  const { sessionId } = game;
  const say = encodeURIComponent(text);
  const attachment = { attachmentType: 'other', fileName: text, mimeType: text };
  const answers = [
    await game.post([anEvent({ sessionId, eventType: text, payload: { [text]: text } })]),
    await game.post([anEvent({ sessionId: text, buildId: text, occurredAt: text, [text]: text })]),
    await game.post([anEvent({ sessionId, [text]: 1 })], { Prefer: 'handling=strict' }),
    await game.request('POST', '/v1/ingest/sessions', {
      body: {
        build: { version: text, platform: text, gitCommit: text, channel: text },
        player: { externalId: text, deviceId: text },
        metadata: { [text]: text },
      },
    }),
    await game.report({
      sessionId,
      report: { title: text, description: text, severity: text, sourceChannel: text, fingerprint: text },
      context: { [text]: text },
      attachments: [{ ...attachment, uploadId: text }],
      eventIds: [text],
    }),
    await game.report({ report: { title: text, description: text, fingerprint: text } }),
    await game.request('POST', '/v1/ingest/uploads', { body: attachment }),
    ...(await Promise.all(
      ['events', 'reports', 'sessions', 'uploads', 'players', text].map((of) =>
        game.request('GET', `/v1/${encodeURIComponent(of)}/${say}`),
      ),
    )),
    await game.request('GET', `/v1/events?eventType=${say}&cursor=${say}&since=${say}&${say}=1`),
    await shared.product.admin('POST', '/admin/tenants', { name: text, [text]: text }),
    await shared.product.admin('POST', '/admin/tenants', { name: text }),
    await shared.product.admin('POST', '/admin/sql', { query: `SELECT ${text}` }),
    await shared.product.admin('GET', `/admin/dead-letters/${say}`),
    await shared.product.admin('GET', `/admin/audit?actor=${say}&since=${say}&cursor=${say}`),
    await shared.product.admin('POST', `/admin/tokens/${say}/rotate`, { overlapSeconds: text }),
    await shared.product.admin('PUT', `/admin/projects/${game.projectId}/switches`, [
      { eventType: text, buildId: text, action: 'reject', reason: text },
    ]),
    await shared.product.admin('PUT', `/admin/projects/${game.projectId}/switches`, [
      { eventType: text, action: 'reject', reason: text },
    ]),
    await shared.product.admin('POST', '/admin/erasures', {
      ...{ tenantId: game.tenantId, player: { externalId: text, deviceId: text } },
    }),
  ];
  expect(answers.map(({ status }) => status).filter((status) => status >= 500)).toEqual([]);
});

test('rejects control characters in headers with a 4xx', async () => {
  for (const text of Object.values(TEXTS)) {
    const wire = await openWire(shared.product.credentials.baseUrl);
    const headers = { Authorization: `Bearer ${game.token}`, 'X-Request-Id': text, 'User-Agent': text };
    const answer = await wire.ask({ path: '/v1/ingest/events', headers, body: '[]' }).catch(() => undefined);
    expect(answer?.status ?? 400).toBeGreaterThanOrEqual(400);
    expect(answer?.status ?? 400).toBeLessThan(500);
    wire.close();
  }
});

test('writes each log entry as one JSON object without control characters, tokens, or forged events', async () => {
  // Sends tokens in paths, queries, and bodies.
  for (const token of tokens) {
    await game.request('GET', `/v1/events/${token}?cursor=${token}`);
    await game.post([anEvent({ sessionId: game.sessionId, eventType: token })]);
    await shared.product.request('GET', '/v1/quota', { headers: { Authorization: `Bearer ${token}x` } });
  }
  // Opens more streams than a project may have, because that rejection is logged.
  const leaving = new AbortController();
  const statuses = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const headers = { Authorization: `Bearer ${game.token}`, 'User-Agent': 'forged_by_a_client' };
      const url = `${shared.product.credentials.baseUrl}/v1/linked-events?token=${game.token}`;
      return (await fetch(url, { headers, signal: leaving.signal })).status;
    }),
  );
  leaving.abort();
  expect(statuses).toContain(503);
  const said = shared.product.stderr();
  const lines = said.split('\n').filter((line) => line !== '');
  expect(lines.length).toBeGreaterThan(0);
  for (const line of lines) {
    expect(JSON.parse(line)).toMatchObject({ level: expect.any(String), event: expect.any(String) });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the test searches for control characters.
    expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
    expect(JSON.parse(line).event).not.toContain('forged_by_a_client');
  }
  for (const token of tokens) expect(said).not.toContain(token);
  recordFigure('Control characters and terminal escapes in every text, and tokens in wrong places', {
    tried: `${Object.keys(TEXTS).length} texts in each field, path, query, and header, and ${tokens.length} tokens`,
    held: `no answer is 5xx; all ${lines.length} log lines are JSON without control characters or tokens`,
  });
});
