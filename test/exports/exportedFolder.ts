/** Serves the requests of `questlog export` on the tables of a test, and reads the exported files. */
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Router } from '@koa/router';
import { exportHandlers } from '@questlog/operations/exports/exportHandlers';
import type { Store, StoreOptions } from '@questlog/runtime/clickhouse/store';
import { httpMetrics } from '@questlog/runtime/http/metrics';
import { problems } from '@questlog/runtime/http/problems';
import { addRoutes } from '@questlog/runtime/http/routes';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { OPERATORS } from '@questlog/schemas/http/operations/operators';
import type { Project } from '@questlog/schemas/topics/directoryEntry';
import Koa, { type Middleware } from 'koa';
import { onTestFinished } from 'vitest';

/**
 * Serves the requests until the end of the test, and returns the settings with which a command sends its requests.
 * @param before middleware that runs before each request
 */
export async function serveExports(
  store: Store,
  project: Project,
  before: Middleware = (_, next) => next(),
): Promise<Record<string, string>> {
  const { planExport, readExportChunk } = OPERATORS;
  const router = new Router();
  const directory = { current: { projects: new Map([[project.id, project]]), erasures: new Map() } };
  addRoutes(router, { planExport, readExportChunk }, exportHandlers(store, directory));
  const app = new Koa()
    .use(problems(silentLogger, httpMetrics(createMetricsRegistry())))
    .use(before)
    .use(router.routes());
  app.silent = true;
  const server = createServer(app.callback());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : '';
  return { QUESTLOG_ADMIN_URL: `http://127.0.0.1:${port}`, QUESTLOG_ADMIN_TOKEN: 'qla_of_the_test' };
}

export interface StoredManifest {
  readonly files: readonly {
    readonly name: string;
    readonly rows: number;
    readonly bytes: number;
    readonly sha256: string;
  }[];
}

export function manifestIn(folder: string): StoredManifest {
  return JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'));
}

/** Returns the paths of all files in the folder and its subfolders, sorted. */
export function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1))
    .sort();
}

/** Inserts the Parquet files of a folder into a table. */
export async function insertFiles(
  { url, username, password, database }: StoreOptions,
  folder: string,
  names: readonly string[],
  table: string,
): Promise<void> {
  for (const name of names) {
    const query = new URLSearchParams({ database, query: `INSERT INTO ${table} FORMAT Parquet` });
    const answer = await fetch(`${url}/?${query}`, {
      method: 'POST',
      headers: { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password },
      body: readFileSync(join(folder, name)),
    });
    if (!answer.ok) throw new Error(await answer.text());
  }
}
