/** The ingest service: everything behind the two listeners, wired. */
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Log } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import type { Health } from '@questlog/runtime/process/health';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Metrics } from '@questlog/runtime/process/metrics';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import type { Store } from '@questlog/runtime/store/store';
import { eventsAccepted, type Revision } from '@questlog/schemas/topics/eventsAccepted';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { adminApp } from './http/adminApp.ts';
import { listen } from './http/listen.ts';
import { publicApp } from './http/publicApp.ts';
import { BodyBudget } from './http/readBody.ts';
import { watchProjection } from './projection.ts';
import { openQuotas } from './quotas.ts';
import { openReplays } from './replays.ts';
import { openSessions } from './sessions.ts';
import { Turns } from './turns.ts';

export interface IngestServiceDeps {
  readonly log: Log;
  readonly store: Store;
  readonly registry: SchemaRegistry;
  readonly directory: DirectoryHandle;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly lifecycle: Lifecycle;
  readonly adminToken: string;
  readonly settings: {
    readonly host: string;
    readonly port: number;
    readonly adminPort: number;
    readonly defaultRevision: Revision;
  };
}

export interface IngestService {
  readonly port: number;
  readonly adminPort: number;
  /** Rejects when a tail that the answers depend on cannot go on. */
  readonly failed: Promise<never>;
}

export async function startIngest(deps: IngestServiceDeps): Promise<IngestService> {
  const { log, store, registry, directory, clock, logger, metrics, health, lifecycle, settings } = deps;
  const events = watchProjection({ log, clock, group: GROUPS.projectEvents, topic: TOPICS.events });
  const registered = watchProjection({ log, clock, group: GROUPS.projectSessions, topic: TOPICS.sessions });
  const partitions = (await log.endOffsets(TOPICS.events)).length;

  const sessions = await openSessions({ log, store, registry, projection: registered, logger });
  lifecycle.onStop('sessions', () => sessions.close());
  const quotas = openQuotas({ store, projection: events, logId: log.id, clock, logger });
  lifecycle.onStop('quotas', () => quotas.close());
  const replays = openReplays({ store, clock, projection: events });
  const bodies = new BodyBudget(metrics.bodyBytesInFlight);
  const codec = await createCodec(registry, eventsAccepted);
  health.check('clickhouse', async () => ((await store.ping()) ? undefined : 'ClickHouse does not answer'));

  const reads = { store, sessions, projection: events, clock, partitions };
  const ingest = { log, codec, sessions, quotas, replays, clock, metrics, partitions, turns: new Turns() };
  const shared = { bodies, defaultRevision: settings.defaultRevision, clock, logger, metrics };
  const toGames = publicApp({ ...shared, directory: directory.current, ingest, reads });
  const toOperators = adminApp({
    directory,
    store,
    health,
    clock,
    logger,
    metrics,
    adminToken: deps.adminToken,
  });

  const open = await listen(toGames.callback(), settings.host, settings.port, 'QUESTLOG_PORT');
  const admin = await listen(
    toOperators.callback(),
    settings.host,
    settings.adminPort,
    'QUESTLOG_ADMIN_PORT',
  );
  // Together: their drains must not add up to more than a stop may take.
  lifecycle.onStop('listeners', async () => void (await Promise.all([open.close(), admin.close()])));
  return {
    port: open.port,
    adminPort: admin.port,
    failed: Promise.race([sessions.failed, directory.failed]),
  };
}
