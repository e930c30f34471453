/**
 * Tests the health checks of a process that is still starting. This is an integration test, because it replaces modules that
 * the fast tests share.
 */
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { loadConfig } from '@questlog/runtime/process/config';
import { createLifecycle } from '@questlog/runtime/process/lifecycle';
import { silentLogger } from '@questlog/runtime/process/logger';
import { expect, onTestFinished, test, vi } from 'vitest';
import { checkedOptions, settings } from './config.ts';
import { startServices } from './services.ts';
// Loads the module before the tests, because loading would exceed the time limit of a test.
import './wiring.ts';

vi.mock('@questlog/runtime/directory/openDirectory', () => ({ openDirectory: () => new Promise(() => {}) }));
vi.mock('./engines/engines.ts', async (original) => ({
  ...(await original<object>()),
  openEngines: async () => ({ engines: Promise.resolve({ log: { append: () => {} }, store: {} }) }),
}));

test.each(['projector', 'linker'] as const)(
  'a %s is alive but not ready while the directory has no leader',
  async (service) => {
    const [port] = await freePorts(1);
    const env = {
      ...{
        KAFKA_BROKERS: 'a:9092',
        SCHEMA_REGISTRY_URL: 'http://registry',
        CLICKHOUSE_URL: 'http://ch:8123',
      },
      QUESTLOG_ADMIN_PORT: String(port),
    };
    const lifecycle = createLifecycle(silentLogger);
    onTestFinished(() => lifecycle.stop());
    const config = loadConfig(settings, env, 'QUESTLOG_');
    const options = checkedOptions(config, false);
    const version = '0.0.0';
    void startServices({ service, settings: config, options, logger: silentLogger, lifecycle, version });

    const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
    await expect.poll(async () => (await ask('/healthz'))?.status).toBe(200);
    const ready = await ask('/readyz');
    expect([ready?.status, await ready?.json()]).toEqual([
      503,
      { status: 'not ready', problems: { start: expect.stringContaining('directory') } },
    ]);
  },
);
