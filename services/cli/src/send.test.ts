import { Unavailable } from '@questlog/runtime/process/errors';
import { expect, onTestFinished, test, vi } from 'vitest';
import { adminEndpoint, gameEndpoint, Rejected } from './connection.ts';
import { sendCommand } from './send.ts';

test.each([
  [new Unavailable('no answer'), 'events 1 to 1 may be stored\n'],
  [new Rejected('no event', 'invalid'), ''],
])('reports after %s whether the events may be stored', async (error, told) => {
  const game = gameEndpoint('http://127.0.0.1:9', 't');
  const admin = adminEndpoint('http://127.0.0.1:9', 't');
  vi.spyOn(game, 'retried').mockRejectedValue(error);
  // Replaces `process.on`, because otherwise the listeners of the command would remain after the test.
  vi.spyOn(process, 'on').mockReturnValue(process);
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  onTestFinished(() => void vi.restoreAllMocks());
  const command = sendCommand(async () => ({ admin, game, demoSessionId: undefined }));

  await expect(command.parseAsync(['{"eventType":"a"}'], { from: 'user' })).rejects.toBe(error);

  expect(written.mock.calls.join('')).toBe(told);
});
