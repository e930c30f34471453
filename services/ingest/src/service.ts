/** Starts the ingest service: constructs its parts and the games' listener. */
import { randomUUID } from 'node:crypto';
import type { RequestListener } from 'node:http';
import type { BlockList } from 'node:net';

import { cachedTableUuids, type Store } from '@questlog/runtime/clickhouse/store';
import { watchLinks, watchTableProgress } from '@questlog/runtime/consumer/projectionProgress';
import { openCursorCiphers } from '@questlog/runtime/cursors/cursorCiphers';
import { warnWithoutHeartbeat } from '@questlog/runtime/directory/heartbeat';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { openAddressLimits } from '@questlog/runtime/http/limits/addresses';
import { UnauthenticatedLimit } from '@questlog/runtime/http/limits/unauthenticated';
import { malformedRequest } from '@questlog/runtime/http/problems';
import type { Log } from '@questlog/runtime/log/log';
import { type Clock, steadyClock } from '@questlog/runtime/process/clock';
import type { Health } from '@questlog/runtime/process/health';
import { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import { type Listener, listen } from '@questlog/runtime/process/listener/listen';
import type { ListenAddress } from '@questlog/runtime/process/listener/listenAddress';
import type { RejectionReason } from '@questlog/runtime/process/listener/rejections';
import type { Logger } from '@questlog/runtime/process/logger';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { PROJECTED, type Projected } from '@questlog/schemas/tables/projected';
import { eventsAccepted, type Revision } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { excludeErasedReports, openReportCache } from './entityCache/reportCache.ts';
import { warnIfRestored, watchRestoredTable } from './entityCache/restoredTable.ts';
import { excludeErasedSessions, isErasedIn, openSessionCache } from './entityCache/sessionCache.ts';
import { OrdinaryIngest } from './events/ingestOrdinary.ts';
import { openQuotas } from './events/quotas.ts';
import { openReplays } from './events/replays.ts';
import { RandomPool } from './events/storeEvents.ts';
import { credentialsIn } from './http/authenticate.ts';
import { type AllowedOrigins, commonCorsHeaders } from './http/cors.ts';
import { gamesHandler } from './http/publicApp.ts';
import { BodyBudget, EventLoopQueue } from './http/readBody.ts';
import { isUpload } from './http/uploadRoutes.ts';
import { openRequestOutcomes } from './ledger/requestOutcomes.ts';
import { fairLookups, fairReads } from './limits/fairQueue.ts';
import { watchIngestCount } from './limits/ingestCount.ts';
import { openLimits } from './limits/limits.ts';
import { openLinkedEventStreams } from './linkedEvents/streams.ts';
import type { IngestMetrics } from './metrics.ts';
import { openRejections } from './rejections/rejections.ts';
import { holderOf } from './tokens/credential.ts';
import type { JwtOptions, JwtVerifier } from './tokens/jwt/jwtVerifier.ts';
import { openTokenUses } from './tokens/tokenUses.ts';
import { type TruncationWatch, watchTruncation } from './truncation.ts';
import { UploadsInFlight } from './uploads/receiveUpload.ts';
import { openAttachmentChecks } from './uploads/uploads.ts';

export interface IngestServiceDeps {
  readonly log: Log;
  readonly store: Store;
  readonly uploads: UploadStore | undefined;
  readonly registry: SchemaRegistry;
  readonly directory: DirectoryHandle;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: IngestMetrics;
  readonly health: Health;
  readonly lifecycle: Lifecycle;
  readonly settings: {
    readonly isEngineLocal: boolean;
    readonly toGames: ListenAddress;
    readonly defaultRevision: Revision;
    /** Base URL of ingest for games, without a trailing slash. If it is empty, URLs contain the `Host` of the request. */
    readonly publicUrl: string;
    readonly corsOrigins: AllowedOrigins;
    readonly hasDocs: boolean;
    /** Maximum number of links from one report to the events of its session. */
    readonly maxSessionLinks: number;
    readonly trustedProxies: BlockList;
    readonly jwt?: JwtOptions | undefined;
  };
}

export interface IngestService {
  readonly port: number;
  readonly failed: Promise<never>;
}

export async function startIngest(deps: IngestServiceDeps): Promise<IngestService> {
  const { log, store, registry, directory, clock, logger, metrics, lifecycle, settings } = deps;
  const partitions = await log.partitionCount(TOPICS.events);
  const projections = watchProjections(deps);
  const { events, sessions: sessionProjection, reports: reportProjection, links } = projections;

  const quotas = openQuotas({ store, projection: events, logId: log.id, clock, logger });
  lifecycle.onStop('quotas', () => quotas.close());
  const lookUps = { store: fairLookups(store, directory.current.projects) };
  const replays = openReplays({ ...lookUps, clock, projection: events });
  const { ownAppends, ...truncation } = watchCuts(deps, (partition, offset) => {
    quotas.truncate(partition, offset);
    replays.onTruncated();
  });
  const { sessions, reports } = await openCaches({ ...deps, ...lookUps }, projections, truncation);
  const codec = await createCodec(registry, eventsAccepted);
  const cursorCiphers = openCursorCiphers(deps);
  const linkedEvents = await openLinkedEventStreams({
    ...deps,
    cursorCiphers,
    erased: directory.current.erased,
  });
  registerWarnings(deps);

  const known = { ...lookUps, sessions, reports, clock, erased: directory.current.erased };
  const [tokens, perReport] = [await openTokens(deps), new KeyedMutex()];
  const [processId, random] = [randomUUID(), new RandomPool()];
  const received = openRequestOutcomes({ ...deps, processId, dropped: metrics.ledgerDropped });
  const rejections = openRejections({ ...deps, dropped: metrics.rejectsDropped });
  const limits = openLimits({ clock, metrics, ingestCountOf: watchIngestCount({ ...deps, processId }) });
  const storing = { log, codec, quotas, limits, received, ownAppends, random, metrics, partitions };
  const ingest = { ...known, ...storing, replays, ordinary: new OrdinaryIngest(codec.schemaId) };
  const settling = { projection: events, waitForLinks: watchLinks(log, links), partitions };
  const shared = {
    store: fairReads(store, directory.current.projects, settings),
    cursorCiphers,
  };
  const toGames = gamesHandler({
    bodies: { budget: new BodyBudget(metrics.bodyBytesInFlight), queue: new EventLoopQueue() },
    ...{ defaultRevision: settings.defaultRevision, corsOrigins: settings.corsOrigins },
    ...{ ...tokens, directory: directory.current, hasDocs: settings.hasDocs, ingest, clock, logger, metrics },
    reads: { ...known, ...settling, ...shared, registered: sessionProjection, reportProjection },
    reports: {
      ...{ ...known, ...storing, projection: events, perReport, maxSessionLinks: settings.maxSessionLinks },
      checkAttachments: openAttachmentChecks({ store: deps.uploads, clock }),
    },
    uploads: {
      ...{ store: deps.uploads, publicUrl: settings.publicUrl, clock, erased: known.erased },
      inFlight: new UploadsInFlight(metrics.uploadsInFlight),
      projectOf: (target) => holderOf(directory.current, target, clock.now()),
    },
    ...{ linkedEvents, limits, received, rejections },
  });
  const listener = await openListener(deps, toGames, tokens.unauthenticated);
  // Stops the streams before the listener. A listener stops only after all open responses, such as streams, have ended.
  lifecycle.onStop('streams of linked events', () => linkedEvents.close());
  const failed = Promise.race([sessions.failed, reports.failed, directory.failed]);
  return { port: listener.port, failed };
}

async function openListener(
  { settings, lifecycle }: IngestServiceDeps,
  toGames: RequestListener,
  guard: UnauthenticatedLimit,
): Promise<Listener> {
  const toMalformed = commonCorsHeaders(settings.corsOrigins);
  const refusalOf = (why: RejectionReason) => malformedRequest(why, toMalformed);
  const listener = await listen(toGames, settings.toGames, refusalOf, isUpload, guard);
  lifecycle.onStop('listener', () => listener.close());
  return listener;
}

async function openTokens(deps: IngestServiceDeps) {
  const uses = openTokenUses(deps);
  deps.lifecycle.onStop('uses of tokens', () => uses.close());
  const { jwt, trustedProxies } = deps.settings;
  const addresses = openAddressLimits({ ...deps, trustedProxies });
  // Loads the library jose only if JWTs are configured, because loading takes time.
  const jwts = jwt && (await import('./tokens/jwt/jwtVerifier.ts')).openJwtVerifier(jwt, deps);
  return { uses, addresses, jwts, unauthenticated: openUnauthenticated(deps, jwts) };
}

function openUnauthenticated(
  { directory, clock, metrics, settings }: IngestServiceDeps,
  jwts: JwtVerifier | undefined,
): UnauthenticatedLimit {
  const isJwt = (text: string): boolean => jwts?.isJwt(text) === true;
  return new UnauthenticatedLimit({
    ...{ clock, metrics, trustedProxies: settings.trustedProxies },
    credentialsOf: (request) => {
      const { authorization } = request.headers;
      const now = { directory: directory.current, nowMs: clock.now() };
      const credentials = credentialsIn(authorization, now, isJwt);
      const isLeftToRoute = credentials === 'none' && isUpload(request);
      return isLeftToRoute ? 'unknown' : credentials;
    },
  });
}

type Projections = ReturnType<typeof watchProjections>;

async function openCaches(
  deps: IngestServiceDeps,
  projections: Projections,
  { onTruncated, onReappended }: Pick<TruncationWatch, 'onTruncated' | 'onReappended'>,
) {
  const { current } = deps.directory;
  const reading = { ...deps, onTruncated, onReappended, isErased: isErasedIn(current) };
  const table = (of: 'sessions' | 'reports') =>
    watchRestoredTable({ ...deps, clock: steadyClock }, PROJECTED[of]);
  const sessions = await openSessionCache({
    ...reading,
    projection: projections.sessions,
    table: table('sessions'),
  });
  deps.lifecycle.onStop('sessions', () => sessions.close());
  const reports = await openReportCache({
    ...reading,
    projection: projections.reports,
    table: table('reports'),
  });
  deps.lifecycle.onStop('reports', () => reports.close());
  warnIfRestored(deps.health, [sessions, reports]);
  return {
    sessions: excludeErasedSessions(sessions, current),
    reports: excludeErasedReports(reports, current.erased),
  };
}

/** Reports truncations of the log to all caches of this process. */
function watchCuts(deps: IngestServiceDeps, onEventsCut: (partition: number, offset: number) => void) {
  const cuts = watchTruncation({ ...deps, onEventsTruncated: onEventsCut });
  deps.lifecycle.onStop('cuts', () => cuts.close());
  deps.directory.onTruncation(({ offset, missing }) => {
    cuts.onTruncated({ topic: TOPICS.directory, partition: 0, offset });
    cuts.onReappended(TOPICS.directory, missing.length);
  });
  return cuts;
}

function watchProjections({ log, store }: IngestServiceDeps) {
  const deps = { log, tableUuid: cachedTableUuids(store) };
  const watch = (of: Projected) => watchTableProgress(deps, of);
  return {
    events: watch('events'),
    sessions: watch('sessions'),
    reports: watch('reports'),
    links: watch('links'),
  };
}

function registerWarnings(deps: IngestServiceDeps): void {
  const { health, log } = deps;
  warnWithoutHeartbeat(deps, health);
  health.warn('log', async () => {
    const without = await Promise.all(REQUEST_TOPICS.map(async (topic) => leaderlessPartitions(log, topic)));
    const named = without.flat().slice(0, MAX_NAMED_PARTITIONS).join(', ');
    return named === ''
      ? undefined
      : `requests of some tenants wait because these partitions have no leader: ${named}`;
  });
}

const REQUEST_TOPICS = [TOPICS.events, TOPICS.sessions, TOPICS.reportLinks];
const MAX_NAMED_PARTITIONS = 5;

async function leaderlessPartitions(log: Log, topic: string): Promise<string[]> {
  const ranges = await log.offsetRanges(topic);
  return ranges.flatMap((range, partition) => (range === undefined ? [`${topic}/${partition}`] : []));
}
