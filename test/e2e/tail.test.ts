/**
 * Tests `questlog tail`. It prints complete events for programs and one line per event for people. It continues after a broken
 * connection.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { stripVTControlCharacters } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { anEvent, rawEvent, type TestProject } from './builders.ts';
import { ownEnvironment } from './product.ts';
import { aStranger, atTerminal, LAUNCHER, type Running, running, testAtTerminal } from './questlogCommand.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;
let env: Record<string, string>;

beforeAll(async () => {
  const { adminUrl, adminToken } = shared.product.credentials;
  env = { QUESTLOG_ADMIN_URL: adminUrl, QUESTLOG_ADMIN_TOKEN: adminToken };
  game = await shared.aProject({ revision: 'A' });
});

async function said(tail: Running, words: string): Promise<void> {
  await expect.poll(() => tail.output.stdout + tail.output.stderr).toContain(words);
}

/** Sends repeatedly until the output has the words, because a busy server may skip records. */
async function untilShown(shown: () => string, words: string, send: () => Promise<unknown>): Promise<void> {
  const sentAndShown = async (): Promise<string> => {
    await send();
    return shown();
  };
  await expect.poll(sentAndShown, { timeout: 20_000, interval: 200 }).toContain(words);
}

test('prints each event of the filters on a line with its payload unchanged, for programs', async () => {
  const tail = running(
    ['tail', '--json', '--project', game.projectId, '--type', 'jump', '--where', 'at.level=4'],
    env,
  );
  await said(tail, 'following');

  const payload = '{"big":12345678901234567890, "pi" : 3.140,\n"at":{"level":4}}';
  await game.post([anEvent({ sessionId: game.sessionId, eventType: 'fall', payload: { at: { level: 4 } } })]);
  await game.post([anEvent({ sessionId: game.sessionId, eventType: 'jump', payload: { at: { level: 3 } } })]);
  const jump = rawEvent(payload, { sessionId: game.sessionId, eventType: 'jump' });
  await untilShown(
    () => tail.output.stdout,
    'jump',
    () => game.post(jump),
  );
  tail.child.kill('SIGINT');

  expect(await tail.ended()).toBe(130);
  const [line = ''] = tail.output.stdout.split('\n');
  expect(line.endsWith(`,"payload":${payload.replace('\n', ' ')}}`)).toBe(true);
  expect(JSON.parse(line)).toMatchObject({
    ...{ projectId: game.projectId, sessionId: game.sessionId, eventType: 'jump' },
    offset: expect.anything(),
  });
});

testAtTerminal(
  'a terminal gets a line an event, no wider than it is, which no text of a game can command',
  async () => {
    const other = await shared.aProject({ revision: 'B' });
    const payload = { text: `日本\u001b[2J${'x'.repeat(100)}` };
    const tail = atTerminal(['tail', '--project', other.projectId], { ...env, NO_COLOR: '' });
    await tail.shows('following');

    await untilShown(tail.screen, '…', () => other.post([anEvent({ eventType: 'boss\u001b[2J', payload })]));
    tail.type('\x03');
    const { code, screen } = await tail.ended();

    expect(code).toBe(130);
    const [line = ''] = /\n.*…/.exec(screen) ?? [];
    const plain = stripVTControlCharacters(line.trim());
    expect(line).toContain('\x1b[36mboss\uFFFD[2J');
    expect(plain).toMatch(/^\d\d:\d\d:\d\d\.\d{3} boss\uFFFD\[2J {17}- {8}\{"text":"日本\\u001b\[2Jx+…$/);
    expect(plain.length + '日本'.length).toBe(80);
  },
);

test('prints the number of skipped events', async () => {
  const url = await aStranger((_, response) => {
    stream(response);
    response.write(`event: count\ndata: {"matched": 2, "shown": 2, "unreadRecords": 0}\n\n`);
    response.write(`event: count\ndata: {"matched": 2000, "shown": 100, "unreadRecords": 0}\n\n`);
    response.write(`event: count\ndata: {"matched": 2001, "shown": 100, "unreadRecords": 3}\n\n`);
  });
  const tail = running(['tail'], { QUESTLOG_ADMIN_URL: url });
  await said(tail, 'showing 100 of 2,000\n');
  tail.child.kill('SIGINT');
  await tail.ended();

  expect(tail.output.stderr).toBe(
    'following; Ctrl-C stops\nshowing 100 of 2,000\nshowing 100 of 2,001; skipped 3 records of the log\n',
  );
});

test('continues after a restart of the server, and prints what it has missed', async () => {
  let times = 0;
  const url = await aStranger((_, response) => {
    times += 1;
    // Simulates a restart. The first connection breaks, the second request gets a 503, and the third connection works.
    if (times === 2) return response.writeHead(503).end('{"detail": "starting"}');
    stream(response);
    response.write(`event: events\ndata: [${JSON.stringify(anEventOfTail(`n${times}`))}]\n\n`);
    if (times === 1) setImmediate(() => response.destroy());
  });
  const tail = running(['tail', '--json'], { QUESTLOG_ADMIN_URL: url });
  await said(tail, '"eventType":"n3"');
  tail.child.kill('SIGINT');

  expect(await tail.ended()).toBe(130);
  expect(tail.output.stdout).toContain('"eventType":"n1"');
  expect(tail.output.stderr).toMatch(
    /does not answer; retrying in [\d.]+ s\n.*\n?connected again; events in between are not shown\n/,
  );
});

test('ends silently if standard output is closed, and with a message if no server answers', async () => {
  const url = await aStranger((_, response) => {
    stream(response);
    const events = JSON.stringify([anEventOfTail('many')]);
    const timer = setInterval(() => response.write(`event: events\ndata: ${events}\n\n`), 20);
    response.once('close', () => clearInterval(timer));
  });
  const script = '"$0" "$1" tail --json | head -1';
  const child = spawn('bash', ['-o', 'pipefail', '-c', script, process.execPath, LAUNCHER], {
    env: { ...ownEnvironment(), QUESTLOG_ADMIN_URL: url },
  });
  const nobody = running(['tail'], { QUESTLOG_ADMIN_URL: 'http://127.0.0.1:9' });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);

  expect({ lines: stdout.split('\n').length, stderr, code }).toEqual({
    ...{ lines: 2, stderr: 'following; Ctrl-C stops\n', code: 0 },
  });
  expect(await nobody.ended()).toBe(1);
  expect(nobody.output.stderr).toContain('does not answer at http://127.0.0.1:9');
});

function stream(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  response.write('retry: 1000\n\n');
}

function anEventOfTail(eventType: string): object {
  return { sessionId: null, eventType, receivedAt: '2026-11-22T12:00:00.000Z', payload: '{}' };
}

test('sends small messages for large events, and answers a HEAD request', async () => {
  const large = await shared.aProject({ revision: 'B' });
  const { adminUrl, adminToken } = shared.product.credentials;
  const look = (method: string): Promise<Response> => {
    const headers = { Authorization: `Bearer ${adminToken}` };
    return fetch(`${adminUrl}/admin/tail?project=${large.projectId}`, { method, headers });
  };
  expect((await look('HEAD')).status).toBe(200);

  const stream = (await look('GET')).body?.pipeThrough(new TextDecoderStream()).getReader();
  if (stream === undefined) throw new Error('no stream');
  const payload = { text: 'x'.repeat(200_000) };
  let told = '';
  await untilShown(
    () => told,
    'event: events',
    async () => {
      await large.post(Array.from({ length: 20 }, () => anEvent({ payload })));
      told += (await stream.read()).value ?? '';
    },
  );
  while (!/"matched":[1-9]/.test(told)) told += (await stream.read()).value ?? '';
  await stream.cancel();
  for (const message of told.split('\n\n')) expect(message.length).toBeLessThan(1_500_000);
});
