/** Ingest, linker and projector in one process, on the embedded log and the embedded ClickHouse. Wires, decides nothing. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startIngest } from '@questlog/ingest/service';
import { LINKER_BOUNDS } from '@questlog/linker/core/linkerState';
import { startLinker } from '@questlog/linker/linker';
import { startProjector } from '@questlog/projector/projector';
import { openDirectory } from '@questlog/runtime/directory/openDirectory';
import { openEmbeddedLog } from '@questlog/runtime/log/embedded/embeddedLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { createHealth } from '@questlog/runtime/process/health';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import { createMetrics } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { startEmbeddedClickHouse } from '@questlog/runtime/store/embedded/embeddedClickHouse';
import { openMigrated } from '@questlog/runtime/store/migrate';
import type { Store } from '@questlog/runtime/store/store';
import { topicDefinitions } from '@questlog/schemas/topics/topics';
import type { Static } from 'typebox';
import type { settings as settingsSchema } from './config.ts';
import { type Credentials, loadCredentials, saveCredentials } from './credentials.ts';
import { openDataDir } from './dataDir.ts';
import { ensureDemo, ensureDemoSession } from './demo.ts';

type Settings = Static<typeof settingsSchema>;

/** Enough for a hot tenant to be spread in trying things out; each costs an insert a block. */
const PARTITIONS = 4;
/** A newcomer reads what was just written: twice as often as a projector on a cluster. */
const FLUSH_INTERVAL_MS = 500;
/** Half of libuv's threads (see main.ts): the others serve files and name look-ups. */
const MAX_CONCURRENT_QUERIES = 8;
const MIGRATIONS = fileURLToPath(new URL('../../../deploy/clickhouse', import.meta.url));

export interface Standalone {
  readonly credentials: Credentials;
  readonly dataDir: string;
  /** Rejects when a part of the process cannot go on; it should then stop and be started again. */
  readonly failed: Promise<never>;
}

export async function startStandalone(
  settings: Settings,
  logger: Logger,
  lifecycle: Lifecycle,
): Promise<Standalone> {
  const dataDir = openDataDir(settings.dataDir);
  const clock = systemClock;
  const health = createHealth();
  const metrics = createMetrics();

  const log = await openEmbeddedLog({ directory: join(dataDir, 'log'), clock });
  lifecycle.onStop('log', () => log.close());
  const credentials = loadCredentials(dataDir);
  const store = await openClickHouse(dataDir, credentials, lifecycle);

  await log.ensureTopics(topicDefinitions(PARTITIONS));
  const registry = await openLogRegistry(log);
  const directory = await openDirectory({ log, registry, logger });
  lifecycle.onStop('directory', () => directory.close());

  const shared = { log, store, registry, clock, logger, metrics, health };
  const projector = await startProjector({ ...shared, flushIntervalMs: FLUSH_INTERVAL_MS });
  lifecycle.onStop('projector', () => projector.stop());
  const linker = await startLinker({ ...shared, bounds: LINKER_BOUNDS });
  lifecycle.onStop('linker', () => linker.stop());
  const ingest = await startIngest({
    ...shared,
    directory,
    lifecycle,
    adminToken: credentials.adminToken,
    settings: { ...settings, defaultRevision: settings.revision },
  });

  const host = settings.host.includes(':') ? `[${settings.host}]` : settings.host;
  credentials.baseUrl = `http://${host}:${ingest.port}`;
  credentials.adminUrl = `http://${host}:${ingest.adminPort}`;
  saveCredentials(dataDir, credentials);
  await ensureDemo(directory, credentials, clock);
  await ensureDemoSession(credentials);
  return { credentials, dataDir, failed: Promise.race([ingest.failed, linker.failed, projector.failed]) };
}

async function openClickHouse(
  dataDir: string,
  credentials: Credentials,
  lifecycle: Lifecycle,
): Promise<Store> {
  const { clickhouse } = credentials;
  const { username, password } = clickhouse;
  const server = await startEmbeddedClickHouse({
    directory: join(dataDir, 'clickhouse'),
    username,
    password,
    maxConcurrentQueries: MAX_CONCURRENT_QUERIES,
  });
  lifecycle.onStop('embedded ClickHouse', () => server.close());
  clickhouse.url = server.url;
  const store = await openMigrated(clickhouse, MIGRATIONS);
  lifecycle.onStop('ClickHouse client', () => store.close());
  return store;
}
