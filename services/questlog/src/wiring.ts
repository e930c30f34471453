/** Connects the services of one process to the log, ClickHouse, and the file storage. */
import { join } from 'node:path';
import { type Console, openConsole } from '@questlog/console/console';
import { ingestMetrics } from '@questlog/ingest/metrics';
import { startIngest } from '@questlog/ingest/service';
import { openFolderStore } from '@questlog/ingest/uploads/folderStore';
import type { UploadStore } from '@questlog/ingest/uploads/uploadStore';
import { LINKER_BOUNDS } from '@questlog/linker/core/linkerState';
import { startLinker } from '@questlog/linker/linker';
import { linkerMetrics } from '@questlog/linker/metrics';
import { projectorMetrics } from '@questlog/projector/metrics';
import { startProjector } from '@questlog/projector/projector';
import { warnOfAddedPartitions } from '@questlog/runtime/consumer/addedPartitions';
import { erasuresOf, type ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import { type DirectoryHandle, openDirectory } from '@questlog/runtime/directory/openDirectory';
import { partitionHealthMetrics, warnOfUnavailablePartitions } from '@questlog/runtime/log/partitionHealth';
import { systemClock } from '@questlog/runtime/process/clock';
import { createHealth, type Health } from '@questlog/runtime/process/health';
import { listenForHealth } from '@questlog/runtime/process/healthRoutes';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { ListenAddress } from '@questlog/runtime/process/listener/listenAddress';
import type { Logger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry, type MetricsRegistry } from '@questlog/runtime/process/metrics';
import { openBackups } from './backup/backups.ts';
import { addressesOf, backupDirOf, type Settings } from './config.ts';
import { type Account, type Credentials, saveCredentials } from './credentials.ts';
import { lowDiskWarning, openDataDir } from './dataDir.ts';
import { ensureDemo, ensureDemoSession } from './demo.ts';
import type { EngineChoice, Engines } from './engines/engines.ts';
import { hasIngest, type ServiceName } from './serviceNames.ts';
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
  readonly choice: EngineChoice;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
  readonly version: string;
  readonly worker?: CurrentWorker | undefined;
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
  const { service, settings, choice, logger, lifecycle, worker, engines, local, adminToken } = deps;
  const { toGames, toOperators } = addressesOf(settings);
  const health = createHealth();
  const metrics = createMetricsRegistry({ version: deps.version, worker: worker?.number });
  const healthUrl = hasIngest(service) ? undefined : await serveHealth(deps, health, metrics);
  const directory = await openDirectory({ ...engines, logger });
  const shared = sharedDeps(engines, directory, logger, health);
  if (engines.problem !== undefined) shared.health.check('embedded ClickHouse', engines.problem);
  if (engines.brokenParts !== undefined) shared.health.warn('broken_parts', () => engines.brokenParts);
  if (engines.needsCompact) shared.health.warn('log_file', () => LOG_FILE_WARNING);
  if (local !== undefined) shared.health.warn('disk', () => lowDiskWarning(local.dataDir));
  await warnOfAddedPartitions(shared);
  warnOfUnavailablePartitions(engines.log, shared.health);
  partitionHealthMetrics(metrics, engines.log);
  lifecycle.onStop('directory', () => directory.close());
  const failures = [directory.failed, ...(await startConsumers(deps, shared, metrics))];
  if (healthUrl !== undefined) {
    health.check(START, () => undefined);
    return { service, adminUrl: healthUrl, failed: Promise.race(failures) };
  }
  const ofAll = worker && combineWorkers(settings.workers, health, metrics);
  const exposition = ofAll?.exposition ?? metrics;
  const pages = await openConsole({ ...shared, directory, exposition, adminToken, dataDir: local?.dataDir });
  addBackupRoutes(deps, shared, pages, local);
  const hasOperators = worker?.isFirst ?? true;
  const hasDemo = local?.hasDemo === true && hasOperators;
  if (hasDemo) health.check(DEMO, () => 'the demo session is not registered yet');
  const ingest = await startIngest({
    ...{ ...shared, ...ofAll, pages, directory, lifecycle, adminToken },
    metrics: ingestMetrics(metrics, exposition),
    uploads: await openUploads(settings, choice, logger),
    settings: {
      ...{ toGames, toOperators, hasOperators },
      isEngineLocal: choice.address === undefined,
      ...{ corsOrigins: choice.corsOrigins, maxSessionLinks: settings.reportLinks },
      maxErasedIds: settings.erasedIds,
      ...{ defaultRevision: settings.revision, publicUrl: choice.publicUrl, hasDocs: settings.docs === 'on' },
      ...{ jwt: choice.jwt, trustedProxies: choice.trustedProxies },
      adminAllowedHosts: settings.adminAllowedHosts.split(',').map((host) => host.trim()),
    },
  });
  // A listener waits until all responses end, so the console first ends its open responses.
  lifecycle.onStop('console', () => pages.close());
  const baseUrl = urlOf(toGames, ingest.port);
  const adminUrl = urlOf(toOperators, ingest.adminPort ?? toOperators.port);
  const failed = Promise.race([...failures, ingest.failed]);
  if (local === undefined || ingest.adminPort === undefined) return { service, baseUrl, adminUrl, failed };

  const { url, database, username, password } = engines.clickhouse;
  const reader = choice.address === undefined ? deps.ownReader : choice.reader;
  const clickhouse = { url, database, username, password, ...(reader && { reader }) };
  const log = choice.kafka === undefined ? ('embedded' as const) : ('kafka' as const);
  const credentials = { ...local.credentials, log, baseUrl, adminUrl, adminToken, clickhouse };
  saveCredentials(local.credentialsPath, credentials);
  if (hasDemo) {
    const isNew = await ensureDemo(directory, credentials, systemClock);
    const registered = ensureDemoSession(credentials).finally(() => health.check(DEMO, () => undefined));
    // Only the first start waits until the demo session is registered. At later starts, the session usually exists already.
    if (isNew) await registered;
    else
      registered.catch((cause) => {
        if (!lifecycle.isStopping()) logger.error('demo_session_not_made', cause);
      });
  }
  return { service, baseUrl, adminUrl, failed, local: { ...local, credentials } };
}

const START = 'start';
const DEMO = 'demo';

async function serveHealth(
  { settings, logger, lifecycle }: ProcessDeps,
  health: Health,
  registry: MetricsRegistry,
): Promise<string> {
  const { toOperators } = addressesOf(settings);
  health.check(START, () => 'the directory is not read to its end yet');
  const listener = await listenForHealth({ health, logger, metrics: { exposition: registry } }, toOperators);
  lifecycle.onStop('listener', () => listener.close());
  return urlOf(toOperators, listener.port);
}

function sharedDeps<T extends object>(
  engines: T,
  directory: DirectoryHandle,
  logger: Logger,
  health: Health,
) {
  return { ...engines, clock: systemClock, logger, health, erased: erasuresOf(directory) };
}

function addBackupRoutes(
  { settings, logger, lifecycle }: ProcessDeps,
  { copyable, store }: Engines,
  { router }: Console,
  local: LocalState | undefined,
): void {
  const source = copyable && local && { log: copyable, store, ...local };
  const backups = openBackups({ router, source, into: backupDirOf(settings), logger });
  lifecycle.onStop('backups', () => backups.close());
}

async function openUploads(
  { dataDir }: Settings,
  { uploads, corsOrigins }: EngineChoice,
  logger: Logger,
): Promise<UploadStore | undefined> {
  if (uploads === undefined) return undefined;
  if (uploads.kind === 's3') {
    // The S3 library is loaded only if needed, because it takes memory and time to load.
    const { openS3Store } = await import('@questlog/ingest/uploads/s3Store');
    return openS3Store(uploads.options, corsOrigins === '*' ? ['*'] : corsOrigins, logger);
  }
  const folder = join(openDataDir(dataDir, ['uploads']), 'uploads');
  return await openFolderStore({ folder, signingKey: uploads.signingKey });
}

async function startConsumers(
  { service, lifecycle }: ProcessDeps,
  shared: ServiceDeps,
  registry: MetricsRegistry,
): Promise<Promise<never>[]> {
  const failures: Promise<never>[] = [];
  if (service === 'standalone' || service === 'projector') {
    const flushIntervalMs = service === 'standalone' ? STANDALONE_FLUSH_INTERVAL_MS : FLUSH_INTERVAL_MS;
    const projector = await startProjector({
      ...shared,
      metrics: projectorMetrics(registry),
      flushIntervalMs,
    });
    lifecycle.onStop('projector', () => projector.stop());
    failures.push(projector.failed);
  }
  if (service === 'standalone' || service === 'linker') {
    const linker = await startLinker({ ...shared, metrics: linkerMetrics(registry), bounds: LINKER_BOUNDS });
    lifecycle.onStop('linker', () => linker.stop());
    failures.push(linker.failed);
  }
  return failures;
}

function urlOf({ host }: ListenAddress, port: number): string {
  const local = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${local.includes(':') ? `[${local}]` : local}:${port}`;
}
