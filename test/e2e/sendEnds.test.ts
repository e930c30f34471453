/**
 * Tests `questlog send` if it ends before the end of its file. It prints which events are stored, so that the user sends no
 * event twice.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { aStranger, type Running, running } from './questlogCommand.ts';

const EVENTS = 1_000;

/** Starts `questlog send` with a file of 1,000 events. The command sends 200 events per request. */
async function sending(answer: RequestListener): Promise<Running> {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-send-ends-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'events.ndjson');
  writeFileSync(file, '{"eventType":"a"}\n'.repeat(EVENTS));
  const url = await aStranger(answer);
  return running(['send', '--json', '--file', file], { QUESTLOG_URL: url, QUESTLOG_TOKEN: 't' });
}

test('Ctrl-C ends it with the number of stored events; a response cannot send terminal commands', async () => {
  let requests = 0;
  const reached = Promise.withResolvers<void>();
  const { child, output, ended } = await sending((_, response) => {
    requests += 1;
    if (requests === 1) response.end('[]');
    else if (requests === 2) response.writeHead(503).end('{"detail":"later\\u001b[2J"}');
    else reached.resolve();
  });
  await reached.promise;
  child.kill('SIGINT');

  expect(await ended()).toBe(130);
  expect(output.stderr).toMatch(
    /^later\uFFFD\[2J; retrying for up to 60 s\nthe first 200 .*; events 201 to 400 may be stored\n$/,
  );
});

test('a closed standard output does not make a partly sent file a success', async () => {
  const hold = Promise.withResolvers<void>();
  let requests = 0;
  const { child, output, ended } = await sending(async (_, response) => {
    requests += 1;
    if (requests > 1) await hold.promise;
    response.end('[]');
  });
  if (child.stdout !== null) await once(child.stdout, 'data');
  child.stdout?.destroy();
  hold.resolve();

  expect(await ended()).toBe(1);
  expect(output.stderr).toContain('the first 400 events are stored');
});
