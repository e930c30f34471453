/** Connects the services of one process to the log, ClickHouse, and the file storage. */
import { join } from 'node:path';
import { openConsole } from '@questlog/console/console';
import { ingestMetrics } from '@questlog/ingest/metrics';
import { startIngest } from '@questlog/ingest/service';
import { LINKER_BOUNDS } from '@questlog/linker/core/linkerState';
import { startLinker } from '@questlog/linker/linker';
import { linkerMetrics } from '@questlog/linker/metrics';
import type { OperationsContext } from '@questlog/operations/context';
import { operationsMetrics } from '@questlog/operations/metrics';
import { startOperations } from '@questlog/operations/service';
import { projectorMetrics } from '@questlog/projector/metrics';
import { startProjector } from '@questlog/projector/projector';
import { watchNodes } from '@questlog/runtime/clickhouse/cluster/nodeHealth';
import { insertMetrics, measureInserts } from '@questlog/runtime/clickhouse/insertMetrics';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { warnOfAddedPartitions } from '@questlog/runtime/consumer/addedPartitions';
import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import { directoryMetrics } from '@questlog/runtime/directory/metrics';
import { type DirectoryHandle, openDirectory } from '@questlog/runtime/directory/openDirectory';
import { type HealthDeps, listenForHealth } from '@questlog/runtime/http/healthRoutes';
import { type HttpMetrics, httpMetrics } from '@questlog/runtime/http/metrics';
import { appendMetrics, measureAppends } from '@questlog/runtime/log/appendMetrics';
import { partitionHealthMetrics, warnOfUnavailablePartitions } from '@questlog/runtime/log/partitionHealth';
import { systemClock } from '@questlog/runtime/process/clock';
import { createHealth, type Health } from '@questlog/runtime/process/health';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { ListenAddress } from '@questlog/runtime/process/listener/listenAddress';
import type { Logger } from '@questlog/runtime/process/logger';
import {
  type BoundedResources,
  createMetricsRegistry,
  type MetricsRegistry,
  resourceMetrics,
  serviceMetrics,
} from '@questlog/runtime/process/metrics';
import type { Tracing } from '@questlog/runtime/tracing/tracing';
import { openFolderStore } from '@questlog/runtime/uploads/folderStore';
import { bucketOptions } from '@questlog/runtime/uploads/uploadSettings';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { visibleIn } from '@questlog/schemas/erased';
import { type OpenBackups, openBackups } from './backup/backups.ts';
import { addressOfOperators, backupDirOf, type Options, type Settings } from './config.ts';
import { type Account, type Credentials, saveCredentials } from './credentials.ts';
import { diskResource, lowDiskWarning, openDataDir } from './dataDir.ts';
import { ensureDemo, ensureDemoSession } from './demo.ts';
import type { Engines } from './engines/engines.ts';
import { runs, type ServiceName, servicesOf } from './serviceNames.ts';
import { type CurrentWorker, combineWorkers } from './workers/worker.ts';

const FLUSH_INTERVAL_MS = 1_000;
/** Minimum interval between two blocks in `standalone`. The interval is short, so that new users see their events soon. */
const STANDALONE_FLUSH_INTERVAL_MS = 500;

export interface Ready {
  readonly service: ServiceName;
  readonly adminUrl: string;
  readonly baseUrl?: string;
  readonly local?: LocalState;
}

export interface Running extends Ready {
  /** Rejects after a permanent failure. The process should then stop, so that a supervisor restarts the process. */
  readonly failed: Promise<never>;
}

export interface LocalState {
  readonly dataDir: string;
  readonly credentialsPath: string;
  readonly credentials: Credentials;
  readonly hasDemo: boolean;
}

export interface ProcessDeps {
  readonly service: ServiceName;
  readonly settings: Settings;
  readonly options: Options;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
  readonly version: string;
  readonly revision?: string | undefined;
  readonly worker?: CurrentWorker | undefined;
  readonly tracing?: Tracing | undefined;
}

interface WiringDeps extends ProcessDeps {
  readonly engines: Engines;
  readonly local: LocalState | undefined;
  readonly ownReader: Account | undefined;
  readonly adminToken: string;
}

const LOG_FILE_WARNING =
  'an older version created the log file, which keeps the bytes of deleted records and does not shrink; stop Questlog and run questlog compact';

export async function wireServices(deps: WiringDeps): Promise<Running> {
  const { service, settings, options, logger, lifecycle, worker, local } = deps;
  const toOperators = addressOfOperators(settings);
  const health = createHealth();
  const { version, revision } = deps;
  const metrics = createMetricsRegistry({ version, revision, worker: worker?.number });
  serviceMetrics(metrics, servicesOf(service));
  const ofAll = worker && combineWorkers(settings.workers, health, metrics);
  const exposition = ofAll?.exposition ?? metrics;
  const http = httpMetrics(metrics, deps.tracing);
  const { engines, resources, durations } = measuredEngines(deps, metrics);
  const withExemplars = worker === undefined ? [http.requestSeconds, ...durations] : undefined;
  const serving = { health: ofAll?.health ?? health, logger, metrics: { exposition, withExemplars } };
  health.check(START, () => 'the directory is not read to its end yet');
  const isOperators = runs(service, 'operations');
  const isFirst = worker?.isFirst ?? true;
  const hasHealthListener = !isOperators && isFirst;
  const healthUrl = hasHealthListener ? await serveHealth(serving, toOperators, lifecycle) : undefined;
  const directory = await openDirectory(engines.log, engines.registry, logger);
  health.check(START, () => 'the services are starting');
  const shared = { ...sharedDeps(engines, directory, logger, health), tracing: deps.tracing };
  addWarnings(deps, shared);
  await warnOfAddedPartitions(shared);
  partitionHealthMetrics(metrics, engines.log);
  directoryMetrics(metrics, directory);
  lifecycle.onStop('directory', () => directory.close());
  const consumers = await startConsumers(deps, shared, { registry: metrics, resources });
  const failures = [directory.failed, ...consumers];
  const uploads = await openUploads(settings, options, logger);
  if (uploads?.connections !== undefined) resources.add(uploads.connections);
  const parts = {
    ...{
      ...shared,
      ...serving,
      directory,
      lifecycle,
      http,
    },
    uploads,
  };
  let baseUrl: string | undefined;
  if (runs(service, 'ingest')) {
    const ownMetrics = ingestMetrics(metrics, parts.http, resources);
    const ingest = await startIngest({ ...parts, metrics: ownMetrics }, parts.uploads, {
      ...{ ...options.ingest, trustedProxies: options.trustedProxies },
      isEngineLocal: options.clickhouse.address === undefined,
    });
    baseUrl = urlOf(options.ingest.toGames, ingest.port);
    failures.push(ingest.failed);
  }
  // Prefers this process's own address, because `QUESTLOG_URL` can be the address of another deployment.
  const gamesUrl = baseUrl ?? settings.url.replace(/\/$/, '');
  const adminUrl = isOperators
    ? await startOperators(deps, parts, { metrics, exposition, withExemplars, resources, gamesUrl })
    : (healthUrl ?? urlOf(toOperators, toOperators.port));
  const urls = { baseUrl, adminUrl: isOperators ? adminUrl : settings.adminUrl };
  const ownLocal = local && isFirst ? await startLocal(deps, local, directory, urls) : undefined;
  health.check(START, () => undefined);
  return {
    service,
    adminUrl,
    failed: Promise.race(failures),
    ...(baseUrl !== undefined && { baseUrl }),
    ...(ownLocal && { local: ownLocal }),
  };
}

/** Returns the engines. Adds metrics of appends and inserts to them. */
function measuredEngines({ engines, local, tracing }: WiringDeps, metrics: MetricsRegistry) {
  const resources = resourceMetrics(metrics);
  const durations = [appendMetrics(metrics, tracing), insertMetrics(metrics, tracing)] as const;
  const [appendSeconds, insertSeconds] = durations;
  measureAppends(engines.log, appendSeconds);
  if (engines.log.appendQueue !== undefined) resources.add(engines.log.appendQueue);
  for (const connections of engines.store.connections ?? []) resources.add(connections);
  if (local !== undefined) resources.add(diskResource(local.dataDir));
  const store = measureInserts(engines.store, insertSeconds);
  return { resources, durations, engines: { ...engines, store } };
}

function addWarnings({ engines, local, lifecycle }: WiringDeps, { health, store }: ServiceDeps): void {
  if (engines.problem !== undefined) health.check('embedded ClickHouse', engines.problem);
  if (engines.brokenParts !== undefined) health.warn('broken_parts', () => engines.brokenParts);
  if (engines.needsCompact) health.warn('log_file', () => LOG_FILE_WARNING);
  if (local !== undefined) health.warn('disk', () => lowDiskWarning(local.dataDir));
  health.warn('clickhouse', async () => ((await store.ping()) ? undefined : 'ClickHouse does not answer'));
  if (store.nodes !== undefined) lifecycle.onStop('nodes of ClickHouse', watchNodes(store, health));
  warnOfUnavailablePartitions(engines.log, health);
}

/** Starts the operations service and the web console. Returns the URL of the operators' listener. */
async function startOperators(
  deps: WiringDeps,
  parts: Omit<OperationsContext, 'metrics' | 'adminToken' | 'projections' | 'reader' | 'studioAccounts'> & {
    readonly http: HttpMetrics;
  },
  {
    metrics,
    exposition,
    withExemplars,
    resources,
    gamesUrl,
  }: HealthDeps['metrics'] & { metrics: MetricsRegistry; resources: BoundedResources; gamesUrl: string },
): Promise<string> {
  const { options, lifecycle, engines, local, adminToken } = deps;
  const address = addressOfOperators(deps.settings);
  const pages = await openConsole({ ...parts, exposition, adminToken, dataDir: local?.dataDir });
  const handlers = { ...pages.handlers, ...backupHandlers(deps, parts.store, local) };
  const ownMetrics = { ...operationsMetrics(metrics, parts.http, exposition, resources), withExemplars };
  const { reader, studioAccounts } = engines;
  parts.health.warn('readers', () => studioAccounts.warning());
  const context = { ...parts, adminToken, reader, studioAccounts, metrics: ownMetrics };
  const operations = await startOperations(
    context,
    { ...pages, handlers },
    {
      ...{ ...options.operations, address, trustedProxies: options.trustedProxies, gamesUrl },
      bucketOf: (bucket) => bucketOptions(deps.settings, bucket),
    },
  );
  // Ends the open responses of the console. Otherwise, the listener could not close, because it waits until all responses end.
  lifecycle.onStop('console', () => pages.close());
  return urlOf(address, operations.port);
}

/** Saves the credentials, and creates the demo data. Returns undefined for a process without a listener for games. */
async function startLocal(
  deps: WiringDeps,
  local: LocalState,
  directory: DirectoryHandle,
  { baseUrl, adminUrl }: { readonly baseUrl: string | undefined; readonly adminUrl: string },
): Promise<Running['local']> {
  if (baseUrl === undefined) return undefined;
  const credentials = credentialsOf(deps, local, { baseUrl, adminUrl });
  saveCredentials(local.credentialsPath, credentials);
  if (local.hasDemo) await startDemo(deps, directory, credentials);
  return { ...local, credentials };
}

function credentialsOf(
  { engines, options, ownReader, adminToken }: WiringDeps,
  local: LocalState,
  urls: { readonly baseUrl: string; readonly adminUrl: string },
): Credentials {
  const { url, database, username, password } = engines.clickhouse;
  const { address, readers } = options.clickhouse;
  const reader = address === undefined ? ownReader : readers[0];
  const clickhouse = { url, database, username, password, ...(reader && { reader }) };
  const log = options.kafka === undefined ? ('embedded' as const) : ('kafka' as const);
  return { ...local.credentials, log, ...urls, adminToken, clickhouse };
}

async function startDemo(
  { lifecycle, logger }: WiringDeps,
  directory: DirectoryHandle,
  credentials: Credentials,
): Promise<void> {
  const isNew = await ensureDemo(directory, credentials, systemClock);
  const registered = ensureDemoSession(credentials);
  // Only the first start waits until the demo session is registered. At later starts, the session usually exists already.
  if (isNew) return await registered;
  registered.catch((cause) => {
    if (!lifecycle.isStopping()) logger.error('demo_session_not_made', cause);
  });
}

const START = 'start';

async function serveHealth(deps: HealthDeps, address: ListenAddress, lifecycle: Lifecycle): Promise<string> {
  const listener = await listenForHealth(deps, address);
  lifecycle.onStop('health listener', () => listener.close());
  return urlOf(address, listener.port);
}

function sharedDeps<T extends object>(
  engines: T,
  directory: DirectoryHandle,
  logger: Logger,
  health: Health,
) {
  return { ...engines, clock: systemClock, logger, health, visible: visibleIn(directory) };
}

function backupHandlers(
  { settings, logger, lifecycle, engines: { copyable } }: WiringDeps,
  store: Store,
  local: LocalState | undefined,
): OpenBackups['handlers'] {
  const source = copyable && local && { log: copyable, store, ...local };
  const backups = openBackups(source, backupDirOf(settings), logger);
  lifecycle.onStop('backups', () => backups.close());
  return backups.handlers;
}

async function openUploads(
  { dataDir }: Settings,
  { uploads, ingest: { corsOrigins } }: Options,
  logger: Logger,
): Promise<UploadStore | undefined> {
  if (uploads === undefined) return undefined;
  if (uploads.kind === 's3') {
    // The S3 library is loaded only if needed, because it takes memory and time to load.
    const { openS3Store } = await import('@questlog/runtime/uploads/s3Store');
    return openS3Store(uploads.options, corsOrigins === '*' ? ['*'] : corsOrigins, logger);
  }
  const folder = join(openDataDir(dataDir, ['uploads']), 'uploads');
  return await openFolderStore({ folder, signingKey: uploads.signingKey });
}

async function startConsumers(
  { service, lifecycle }: ProcessDeps,
  shared: ServiceDeps,
  { registry, resources }: { registry: MetricsRegistry; resources: BoundedResources },
): Promise<Promise<never>[]> {
  const failures: Promise<never>[] = [];
  if (runs(service, 'projector')) {
    const flushIntervalMs = service === 'standalone' ? STANDALONE_FLUSH_INTERVAL_MS : FLUSH_INTERVAL_MS;
    const projector = await startProjector({
      ...shared,
      metrics: projectorMetrics(registry),
      flushIntervalMs,
    });
    lifecycle.onStop('projector', () => projector.stop());
    failures.push(projector.failed);
  }
  if (runs(service, 'linker')) {
    const metrics = linkerMetrics(registry, resources);
    const linker = await startLinker({ ...shared, metrics, bounds: LINKER_BOUNDS });
    lifecycle.onStop('linker', () => linker.stop());
    failures.push(linker.failed);
  }
  return failures;
}

function urlOf({ host }: ListenAddress, port: number): string {
  const local = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${local.includes(':') ? `[${local}]` : local}:${port}`;
}
