/** Tests the accounts of studios without a ClickHouse. */

import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { Unavailable } from '../../process/errors.ts';
import { silentLogger } from '../../process/logger.ts';
import { readableTables } from './accountStatements.ts';
import { openServerAccounts } from './serverAccounts.ts';

test('rejects a change before the change if no node of ClickHouse answers', async () => {
  const url = await closedAddress();
  const node = { url, username: 'questlog', password: '', database: 'questlog' };
  const accounts = openServerAccounts({
    ...{ url, database: 'questlog', nodes: [node], cluster: undefined },
    ...{ unrestricted: ['questlog'], logger: silentLogger },
  });
  onTestFinished(() => accounts.close());
  await expect(accounts.refusal()).rejects.toThrow(Unavailable);
});

test('a table of the operator is not readable, also if an object of JavaScript has a property with its name', () => {
  expect(
    readableTables({
      tables: new Map([
        ['constructor', false],
        ['events', true],
      ]),
    }),
  ).toEqual(['events']);
});

/** Returns an address at which no process listens. */
async function closedAddress(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return `http://127.0.0.1:${port}`;
}
