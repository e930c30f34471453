/** Test support: starts a whole ingest with its listener on a log and a ClickHouse of the test. */
import { randomUUID } from 'node:crypto';
import { BlockList } from 'node:net';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import { type DirectoryHandle, openDirectory } from '@questlog/runtime/directory/openDirectory';
import type { Log } from '@questlog/runtime/log/log';
import { systemClock } from '@questlog/runtime/process/clock';
import { createHealth } from '@questlog/runtime/process/health';
import { createLifecycle } from '@questlog/runtime/process/lifecycle';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { visibleIn } from '@questlog/schemas/erased';
import { PROJECTED } from '@questlog/schemas/tables/projected';
import { onTestFinished } from 'vitest';
import { ingestMetrics } from './metrics.ts';
import { startIngest } from './service.ts';

export const TOKEN = 'the-token-of-a-game';

export const NAMED = { name: 'N', createdAt: 1 };

/** Creates a project. @returns the token of the project. */
export async function aProject(
  directory: DirectoryHandle,
  { tenantId, projectId, spread = 1 }: { tenantId: string; projectId: string; spread?: number },
  token: string = randomUUID(),
): Promise<string> {
  const tokenId = randomUUID();
  await directory.put('tenant', tenantId, { ...NAMED, id: tenantId, monthlySoftQuota: null, spread });
  await directory.put('project', projectId, { ...NAMED, id: projectId, tenantId, revision: 'A' });
  await directory.put('token', tokenId, {
    ...{ id: tokenId, projectId, sha256: sha256Hex(token), expiresAt: null, createdAt: 1 },
    scopes: ['events:write'],
  });
  return token;
}

export const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

export const tablesAlone = async (sql: string) =>
  sql.includes('system.tables')
    ? Object.values(PROJECTED).map(({ table: name }) => ({ name, uuid: randomUUID() }))
    : [];

const EMPTY = { query: tablesAlone, ping: async () => true } as unknown as Store;

export async function anIngest(log: Log, store = EMPTY) {
  const lifecycle = createLifecycle(silentLogger);
  const shared = {
    ...{ log, lifecycle, clock: systemClock, logger: silentLogger, health: createHealth() },
    registry: await openLogRegistry(log),
    metrics: ingestMetrics(createMetricsRegistry()),
  };
  const directory = await openDirectory(log, shared.registry, silentLogger);
  lifecycle.onStop('directory', () => directory.close());
  onTestFinished(() => lifecycle.stop());
  const anyPort = { host: '127.0.0.1', port: 0, settings: { host: 'QUESTLOG_HOST', port: 'QUESTLOG_PORT' } };
  const { port } = await startIngest(
    { ...shared, store, directory, visible: visibleIn(directory) },
    undefined,
    {
      isEngineLocal: true,
      toGames: anyPort,
      ...{ defaultRevision: 'A', corsOrigins: '*', publicUrl: '', hasDocs: true, maxSessionLinks: 20_000 },
      ...{ trustedProxies: new BlockList(), jwt: undefined },
    },
  );
  const headers = { ...bearer(TOKEN), 'Content-Type': 'application/json' };
  const post = (path: string, body: object, more = {}): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      ...{ method: 'POST', headers: { ...headers, ...more } },
      body: JSON.stringify(body),
    });
  return { post, log, directory, health: shared.health };
}
