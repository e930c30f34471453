/** Tests that no change is lost if two operators change the switches of a project at the same time. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import { adminEndpoint, type Connection } from '../connection.ts';
import { switchesCommand } from './switches.ts';

const PROJECT = '0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11';
interface TestSwitch {
  readonly reason: string;
}

/** @param others the switches that other operators add. The server adds one switch between a read and a write of the command. */
async function startServer(list: TestSwitch[], others: TestSwitch[]) {
  const state = { list, etag: 0 };
  const server = createServer(async (request, response) => {
    if (request.method === 'GET') {
      response.setHeader('ETag', `"${state.etag}"`);
      response.end(JSON.stringify(state.list));
      const other = others.shift();
      if (other !== undefined) Object.assign(state, { list: [other, ...state.list], etag: state.etag + 1 });
      return;
    }
    const body = (await json(request)) as TestSwitch[];
    const isCurrent = request.headers['if-match'] === `"${state.etag}"`;
    response.statusCode = isCurrent ? 200 : 412;
    if (isCurrent) Object.assign(state, { list: body, etag: state.etag + 1 });
    response.end(JSON.stringify(isCurrent ? body : { detail: 'changed', code: 'precondition_failed' }));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  onTestFinished(() => {
    written.mockRestore();
    server.closeAllConnections();
    server.close();
  });
  const admin = adminEndpoint(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, 'token');
  const run = (...words: string[]) =>
    switchesCommand(async () => ({ admin }) as Connection).parseAsync(words, { from: 'user' });
  return { run, reasons: () => state.list.map(({ reason }) => reason) };
}

const [a, b, c] = [{ reason: 'a' }, { reason: 'b' }, { reason: 'c' }];

test('keeps a switch that another operator adds at the same time', async () => {
  const { run, reasons } = await startServer([a], [b]);
  await run('add', PROJECT, '--reject', '--reason', 'own');

  expect(reasons()).toEqual(['own', 'b', 'a']);
});

test('removes the intended switch although its number has changed', async () => {
  const { run, reasons } = await startServer([a, c], [b]);
  await run('clear', PROJECT, '1');

  expect(reasons()).toEqual(['b', 'c']);
});

test('removes all listed switches, and none that was added later', async () => {
  const { run, reasons } = await startServer([a, c], [b]);
  await run('clear', PROJECT);

  expect(reasons()).toEqual(['b']);
});

test('fails without a change after two conflicts', async () => {
  const { run, reasons } = await startServer([a], [b, c]);
  const added = run('add', PROJECT, '--reject', '--reason', 'own');

  await expect(added).rejects.toThrow(
    'another operator changed the switches of this project at the same time, twice',
  );
  expect(reasons()).toEqual(['c', 'b', 'a']);
});

test('rejects a number that no switch has', async () => {
  const { run, reasons } = await startServer([a], []);
  for (const number of ['0', '2'])
    await expect(run('clear', PROJECT, number)).rejects.toThrow(`there is no switch ${number}`);
  expect(reasons()).toEqual(['a']);
});
