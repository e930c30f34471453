/** Test support: the stream of linked events on its own log, with a real listener and projects that read the stream. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Router } from '@koa/router';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { openCursorCiphers } from '@questlog/runtime/cursors/cursorCiphers';
import { applyEntry, type Directory, sha256Hex } from '@questlog/runtime/directory/directory';
import { openDirectory } from '@questlog/runtime/directory/openDirectory';
import { problems } from '@questlog/runtime/http/problems';
import { type EmbeddedExtras, openEmbeddedLog } from '@questlog/runtime/log/embedded/embeddedLog';
import type { Log } from '@questlog/runtime/log/log';
import { listen } from '@questlog/runtime/process/listener/listen';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { visibleIn } from '@questlog/schemas/erased';
import { aLinkedEvent } from '@questlog/schemas/fixtures/builders';
import type { Scope } from '@questlog/schemas/topics/directoryEntry';
import { type LinkedEvent, linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import Koa from 'koa';
import { onTestFinished } from 'vitest';
import { authenticate, checkScope } from '../http/authenticate.ts';
import { streamLinkedEvents } from '../http/publicApp.ts';
import { type IngestMetrics, ingestMetrics } from '../metrics.ts';
import { positionIn, type StreamPosition } from './core/streamId.ts';
import {
  type LinkedEventStreams,
  openLinkedEventStreams,
  STREAM_LIMITS,
  type StreamLimits,
} from './streams.ts';

export interface Reader {
  readonly tenantId: string;
  readonly projectId: string;
  readonly token: string;
}

export interface StreamBench {
  readonly baseUrl: string;
  readonly log: Log & EmbeddedExtras;
  readonly metrics: IngestMetrics;
  /** All responses of the listener, oldest first. */
  readonly responses: readonly ServerResponse[];
  /** Creates a project with a token. The project belongs to a new tenant unless `tenantId` is set. */
  reader(of?: { tenantId?: string; scopes?: readonly Scope[] }): Reader;
  revoke(reader: Reader): void;
  /** Appends a link of the reader's project and returns the link. */
  append(reader: Reader, partition: number, of?: Parameters<typeof aLinkedEvent>[0]): Promise<LinkedEvent>;
  /** Decodes an id that the reader received. */
  positionOf(reader: Reader, id: string): Promise<StreamPosition | 'start'>;
  /** Moves the clock of the log and deletes the records that have expired at the new time. */
  expire(afterMs: number): Promise<void>;
  /** Breaks all connections, as a network failure does. */
  breakConnections(): void;
  /** Stops the streams and then the listener, as the service does. */
  stop(): Promise<void>;
}

export const PARTITIONS = 3;

const READ: readonly Scope[] = ['read'];

/** Creates a bench. The bench is closed after the test. */
export async function aStreamBench(
  limits: Partial<StreamLimits> = {},
  store: Pick<Store, 'query'> = { query: async () => [] },
): Promise<StreamBench> {
  const dataDir = mkdtempSync(join(tmpdir(), 'linked-events-'));
  let aheadMs = 0;
  const clock = { now: () => Date.now() + aheadMs };
  const log = await openEmbeddedLog({ directory: dataDir, clock });
  await log.ensureTopics(topicDefinitions(PARTITIONS));
  const registry = await openLogRegistry(log);
  const codec = await createCodec(registry, linkedEvents);
  const metrics = ingestMetrics(createMetricsRegistry());
  const handle = await openDirectory(log, registry, silentLogger);
  const [directory, cursorCiphers] = [handle.current, openCursorCiphers(handle, clock)];
  const streams = await openLinkedEventStreams(
    {
      log,
      registry,
      store: store as Store,
      clock,
      metrics,
      directory: handle,
      logger: silentLogger,
      visible: visibleIn(handle),
    },
    cursorCiphers,
    { ...STREAM_LIMITS, ...limits },
  );
  const responses: ServerResponse[] = [];
  const app = streamApp({ streams, directory, metrics, responses });
  const listener = await listen(app.callback(), {
    ...{ host: '127.0.0.1', port: 0 },
    settings: { host: 'host', port: 'port' },
  });

  const stop = async (): Promise<void> => {
    await streams.close();
    await listener.close();
  };
  onTestFinished(async () => {
    await stop();
    await handle.close();
    await log.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    baseUrl: `http://127.0.0.1:${listener.port}`,
    log,
    metrics,
    responses,
    reader: (of) => addReader(directory, of),
    revoke: ({ token }) => applyEntry(directory, `token:${token}`, null),
    append: async ({ tenantId, projectId }, partition, of = {}) => {
      const link = aLinkedEvent({ tenantId, projectId, ...of });
      const record = { key: tenantId, value: codec.encode(link) };
      await log.append(TOPICS.linkedEvents, partition, [record]);
      return link;
    },
    positionOf: async ({ projectId }, id) => positionIn(id, await cursorCiphers.for('stream', projectId)),
    expire: async (afterMs) => {
      aheadMs += afterMs;
      await log.maintain();
    },
    breakConnections: () => {
      for (const { socket } of responses) socket?.destroy();
    },
    stop,
  };
}

/** Appends links to all partitions in turn. @returns the ids of the links. */
export async function appendLinks(bench: StreamBench, reader: Reader, count: number): Promise<string[]> {
  const linkIds: string[] = [];
  for (let i = 0; i < count; i++) linkIds.push((await bench.append(reader, i % PARTITIONS)).linkId);
  return linkIds;
}

function streamApp(deps: {
  streams: LinkedEventStreams;
  directory: Directory;
  metrics: IngestMetrics;
  responses: ServerResponse[];
}): Koa {
  const { streams, directory, metrics, responses } = deps;
  const router = new Router();
  router.get('/v1/linked-events', (ctx) => {
    responses.push(ctx.res);
    const reauthenticate = () => {
      const deps = { directory, nowMs: Date.now(), defaultRevision: 'A' } as const;
      const principal = authenticate(ctx.get('Authorization'), deps);
      checkScope(principal, 'read');
      return principal;
    };
    return streamLinkedEvents(streams, ctx, { principal: reauthenticate(), reauthenticate });
  });
  const app = new Koa();
  // Prints no errors of connections, because the tests break connections.
  app.silent = true;
  app.use(problems(silentLogger, metrics));
  app.use(router.routes());
  return app;
}

function addReader(
  directory: Directory,
  { tenantId = randomUUID(), scopes = READ }: { tenantId?: string; scopes?: readonly Scope[] } = {},
): Reader {
  const [projectId, token] = [randomUUID(), randomUUID()];
  const nothing = { tenant: null, project: null, token: null };
  const tenant = { id: tenantId, name: '', monthlySoftQuota: null, spread: 1, createdAt: 0 };
  applyEntry(directory, `tenant:${tenantId}`, { ...nothing, tenant });
  const project = { id: projectId, tenantId, name: '', revision: null, createdAt: 0 };
  applyEntry(directory, `project:${projectId}`, { ...nothing, project });
  const granted = { id: token, projectId, sha256: sha256Hex(token), scopes, expiresAt: null, createdAt: 0 };
  applyEntry(directory, `token:${token}`, { ...nothing, token: granted });
  return { tenantId, projectId, token };
}
