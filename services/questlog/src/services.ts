/** Starts the services of a process: checks the settings, opens the engines, and connects the services to the engines. */
import { StartRefused } from '@questlog/runtime/process/errors';
import {
  checkAddress,
  checkAddresses,
  type ListenAddress,
} from '@questlog/runtime/process/listener/listenAddress';
import { traceEngines } from '@questlog/runtime/tracing/traceEngines';
import { addressOfOperators, type Options, type Settings } from './config.ts';
import { type Credentials, credentialsPath, loadCredentials, readerOf } from './credentials.ts';
import { openDataDir } from './dataDir.ts';
import { openEngines } from './engines/engines.ts';
import { runs, type ServiceName } from './serviceNames.ts';
import type { LocalState, ProcessDeps, Running } from './wiring.ts';

const MIN_ADMIN_TOKEN = 16;

export async function startServices(deps: ProcessDeps): Promise<Running> {
  const { service, settings, options, logger, lifecycle, tracing } = deps;
  await checkStart(deps);
  const local = openLocalState(service, settings, options);
  const adminToken = adminTokenOf(service, settings, local);
  const ownReader = local && readerOf(local.credentials);
  const embedded =
    service === 'standalone' && local && ownReader
      ? { ...local, ...local.credentials.clickhouse, reader: ownReader }
      : undefined;
  const { embeddedAddress } = options.clickhouse;
  const clickhousePort = embedded === undefined ? 0 : await portFor(embeddedAddress, embedded.credentials);
  const opening = await openEngines({
    ...{ options, embedded, logger, lifecycle },
    settings: { ...settings, clickhousePort },
  });
  // Importing `wiring.ts` is slow, so the import runs while ClickHouse starts.
  const [{ wireServices }, opened] = await Promise.all([import('./wiring.ts'), opening.engines]);
  if (runs(service, 'ingest') || runs(service, 'operations')) await announce(deps);
  const engines = tracing === undefined ? opened : traceEngines(opened, tracing);
  return await wireServices({ ...deps, engines, local, ownReader, adminToken });
}

/** Announces to other processes that this process writes records. The services stop before the announcement ends. */
async function announce({ options, settings, logger, lifecycle }: ProcessDeps): Promise<void> {
  const { kafka: connection } = options;
  if (connection === undefined) return;
  const { announceWriter } = await import('@questlog/runtime/log/kafka/group/announceWriter');
  const writer = announceWriter({ connection, prefix: settings.prefix, logger });
  lifecycle.onStop('announcement of the writer', () => writer.close());
}

async function checkStart({ service, settings, options, worker }: ProcessDeps): Promise<void> {
  if (service === 'standalone' && settings.workers > 1) {
    throw new StartRefused(
      'settings: QUESTLOG_WORKERS: must be 1 here; only `questlog ingest` can have workers',
    );
  }
  const { address, embeddedAddress } = options.clickhouse;
  await checkAddresses([
    // A worker does not require a free address for game clients, because the worker's parent process already listens on it.
    ...(runs(service, 'ingest') && worker === undefined ? [options.ingest.toGames] : []),
    ...((worker?.isFirst ?? true) ? [addressOfOperators(settings)] : []),
    ...(address === undefined ? [embeddedAddress] : []),
  ]);
}

/** Reuses ClickHouse's previous port if possible, so that BI tools keep their address. */
async function portFor(address: ListenAddress, { clickhouse }: Credentials): Promise<number> {
  const last = Number(URL.parse(clickhouse.url)?.port ?? 0);
  if (address.port !== 0 || last === 0) return address.port;
  return await checkAddress({ ...address, port: last }).then(
    () => last,
    () => 0,
  );
}

function openLocalState(
  service: ServiceName,
  settings: Settings,
  { kafka, clickhouse: { address } }: Options,
): LocalState | undefined {
  const isStandalone = service === 'standalone';
  const hasDemo = settings.demo === 'on' || (settings.demo === 'auto' && isStandalone);
  if (!isStandalone && !(service === 'ingest' && hasDemo)) return undefined;
  const log = kafka === undefined ? (['log'] as const) : [];
  const rows = address === undefined ? (['clickhouse'] as const) : [];
  const dataDir = openDataDir(settings.dataDir, [...log, ...rows]);
  const path = credentialsPath(dataDir, kafka !== undefined);
  return { dataDir, hasDemo, credentialsPath: path, credentials: loadCredentials(path) };
}

function adminTokenOf(service: ServiceName, { adminToken }: Settings, local: LocalState | undefined): string {
  // Only `standalone` can use the admin token of the local credentials. A separate `operations` process does not know it.
  const created = service === 'standalone' ? (local?.credentials.adminToken ?? '') : '';
  const token = adminToken || created;
  if (token.length >= MIN_ADMIN_TOKEN || (service !== 'operations' && adminToken === '')) return token;
  throw new StartRefused(
    `settings: QUESTLOG_ADMIN_TOKEN: required, with at least ${MIN_ADMIN_TOKEN} characters`,
  );
}
