/** Tests that ClickHouse gets the accounts of the directory after every change, also if the request of the change fails. */
import { randomUUID } from 'node:crypto';
import type { StudioReader } from '@questlog/runtime/clickhouse/studioTables';
import { openDirectory } from '@questlog/runtime/directory/openDirectory';
import { aLog, ManualClock, topicSpec } from '@questlog/runtime/log/embedded/testing/testLog';
import { withPausedTails } from '@questlog/runtime/log/testing/alteredLog';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { administer } from './administer.ts';
import { openReaders, readerOperations } from './readers.ts';

test('an account is dropped in ClickHouse, although the request failed because the directory was read too late', async () => {
  const { process, pause } = await aDeployment();
  const { create, operations, usernames } = await process();
  const { id, username } = await create();
  expect(usernames()).toEqual([username]);
  const resume = pause();
  await expect(operations.dropReader(id)).rejects.toThrow(Unavailable);
  resume();
  await expect.poll(usernames).toEqual([]);
});

test('ClickHouse gets the changes of another operations process', async () => {
  const { process } = await aDeployment();
  const [here, there] = [await process(), await process()];
  const { id, username } = await there.create();
  await expect.poll(here.usernames).toEqual([username]);
  await there.operations.dropReader(id);
  await expect.poll(here.usernames).toEqual([]);
});

test('rejects a new password for an expired account', async () => {
  const { process, clock } = await aDeployment();
  const { create, operations } = await process();
  const { id } = await create(new Date(clock.now() + 1_000).toISOString());
  await operations.rotateReader(id);
  clock.nowMs += 1_000;
  await expect(operations.rotateReader(id)).rejects.toMatchObject({
    code: 'not_found',
    message: expect.stringContaining('has expired'),
  });
});

test('creates no account that ClickHouse cannot have', async () => {
  const { process } = await aDeployment('ClickHouse is too old');
  const { create, operations } = await process();
  await expect(create()).rejects.toMatchObject({
    code: 'readers_not_here',
    message: 'ClickHouse is too old',
  });
  expect(operations.readers()).toEqual([]);
});

async function aDeployment(refusal?: string) {
  const [log, clock] = [await aLog(), new ManualClock()];
  await log.ensureTopics([topicSpec(TOPICS.directory), topicSpec(TOPICS.schemas)]);
  const registry = await openLogRegistry(log);
  let mayRead = Promise.resolve();
  const pause = (): (() => void) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    mayRead = promise;
    return resolve;
  };
  const process = async () => {
    const paused = withPausedTails(log, () => mayRead);
    const directory = await openDirectory(paused, registry, silentLogger, { waitMs: 200 });
    onTestFinished(() => directory.close());
    let accounts: readonly StudioReader[] = [];
    const set = async (studios: readonly StudioReader[]): Promise<void> => {
      accounts = studios;
    };
    const studioAccounts = {
      ...{ url: 'http://clickhouse', database: 'questlog', set },
      refusal: async () => refusal,
      warning: () => undefined,
    };
    const applyReaders = await openReaders(directory, studioAccounts);
    const operations = readerOperations({ directory, clock, studioAccounts, applyReaders });
    const create = async (expiresAt?: string) => {
      const tenant = await administer(directory, clock).createTenant({ id: randomUUID(), name: 'T' });
      const input = { tenantId: tenant.body.id, ...(expiresAt !== undefined && { expiresAt }) };
      return (await operations.createReader(input)).body;
    };
    return { operations, create, usernames: () => accounts.map(({ username }) => username) };
  };
  return { clock, process, pause };
}
