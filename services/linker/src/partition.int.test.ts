import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { openEmbeddedLog } from '@questlog/runtime/log/embedded/embeddedLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createHealth } from '@questlog/runtime/process/health';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetrics } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { LINKER_BOUNDS } from './core/linkerState.ts';
import { startLinker } from './linker.ts';

const isSilent = async (): Promise<never> => {
  throw new Unavailable('ClickHouse is silent');
};
const silentStore: Store = {
  database: 'questlog',
  query: isSilent,
  text: isSilent,
  command: isSilent,
  insert: isSilent,
  ping: async () => false,
  close: async () => {},
};

test('events of a newer version wait for the registry: the linker neither stops nor passes them by', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'linker-'));
  const log = await openEmbeddedLog({ directory, clock: systemClock });
  onTestFinished(async () => {
    await log.close();
    rmSync(directory, { recursive: true, force: true });
  });
  await log.ensureTopics(topicDefinitions(1));
  const own = await openLogRegistry(log);
  let isAway = false;
  const heard: string[] = [];
  const tell = (event: string): void => void heard.push(event);
  const linker = await startLinker({
    log,
    registry: {
      ...own,
      schemaById: async (id) => {
        if (isAway) throw new Unavailable('the registry is away');
        return await own.schemaById(id);
      },
    },
    store: silentStore,
    clock: systemClock,
    logger: { ...silentLogger, warn: tell, error: tell },
    metrics: createMetrics(),
    health: createHealth(),
    bounds: LINKER_BOUNDS,
  });
  onTestFinished(() => linker.stop());
  let failure: unknown;
  linker.failed.catch((error: unknown) => {
    failure = error;
  });
  const committed = async (): Promise<number> =>
    (await log.committed(GROUPS.link, TOPICS.events))[0]?.offset ?? 0;

  const schema = JSON.stringify({ ...JSON.parse(eventsAccepted.schema), doc: 'the next version' });
  const newer = await createCodec(own, { ...eventsAccepted, schema });
  isAway = true;
  const message = anEventsAccepted();
  await log.append(TOPICS.events, 0, [{ key: message.tenantId, value: newer.encode(message) }]);
  await expect
    .poll(() => failure ?? heard.filter((event) => event === 'linking_delayed').length, { timeout: 10_000 })
    .toBeGreaterThan(1);
  expect(await committed()).toBe(0);
  isAway = false;
  await expect.poll(committed, { timeout: 10_000 }).toBe(1);
  expect(heard).not.toContain('record_not_linked');
  expect(failure).toBeUndefined();
});
