/** Starts the ingest service: constructs its parts and its two listeners. */
import { randomUUID } from 'node:crypto';
import type { RequestListener } from 'node:http';
import type { BlockList } from 'node:net';

import { type AddressedStore, cachedTableUuids, type Store } from '@questlog/runtime/clickhouse/store';
import { erasuresOf } from '@questlog/runtime/consumer/serviceDeps';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Log } from '@questlog/runtime/log/log';
import { type Clock, steadyClock } from '@questlog/runtime/process/clock';
import type { Health } from '@questlog/runtime/process/health';
import { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import { listen } from '@questlog/runtime/process/listener/listen';
import type { ListenAddress } from '@questlog/runtime/process/listener/listenAddress';
import type { RejectionReason } from '@questlog/runtime/process/listener/rejections';
import type { Logger } from '@questlog/runtime/process/logger';
import { type Codec, createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { PROJECTED, type Projected } from '@questlog/schemas/tables/projected';
import { type EventsAccepted, eventsAccepted, type Revision } from '@questlog/schemas/topics/eventsAccepted';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type Koa from 'koa';
import { type DeadLetterAdmin, openDeadLetterAdmin } from './admin/deadLetters.ts';
import { openCursorCiphers, sharedSecret } from './cursors/cursorCiphers.ts';
import { type ProjectionProgress, watchLinks, watchTableProgress } from './entityCache/projectionProgress.ts';
import { excludeErasedReports, openReportCache } from './entityCache/reportCache.ts';
import { warnIfRestored, watchRestoredTable } from './entityCache/restoredTable.ts';
import { excludeErasedSessions, isErasedIn, openSessionCache } from './entityCache/sessionCache.ts';
import { openErasures } from './erasures/erasures.ts';
import { openPlayerSessions } from './erasures/playerSessions.ts';
import { runErasures } from './erasures/runErasures.ts';
import { OrdinaryIngest } from './events/ingestOrdinary.ts';
import { openQuotas } from './events/quotas.ts';
import { openReplays } from './events/replays.ts';
import { RandomPool } from './events/storeEvents.ts';
import { maxLogRetentionMs } from './expired/expiredSessions.ts';
import { type PlayerKey, playerKeyOf } from './expired/playerHash.ts';
import { type AdminPages, adminApp } from './http/adminApp.ts';
import { openAudit } from './http/audit/audit.ts';
import { credentialsIn } from './http/authenticate.ts';
import { type AllowedOrigins, commonCorsHeaders } from './http/cors.ts';
import { malformedRequest, rejectLimitedAddresses } from './http/problems.ts';
import { gamesHandler } from './http/publicApp.ts';
import { BodyBudget, EventLoopQueue } from './http/readBody.ts';
import { isUpload } from './http/uploadRoutes.ts';
import { openRequestOutcomes } from './ledger/requestOutcomes.ts';
import { openStoredRows } from './ledger/storedRows.ts';
import { openVerifier } from './ledger/verify.ts';
import { openAddressLimits } from './limits/addresses.ts';
import { fairLookups, fairReads } from './limits/fairQueue.ts';
import { watchIngestCount } from './limits/ingestCount.ts';
import { openLimits } from './limits/limits.ts';
import { UnauthenticatedLimit } from './limits/unauthenticated.ts';
import { openLinkedEventStreams } from './linkedEvents/streams.ts';
import type { IngestMetrics } from './metrics.ts';
import { openRejections } from './rejections/rejections.ts';
import { openRetention } from './retention/retention.ts';
import { holderOf } from './tokens/credential.ts';
import type { JwtOptions, JwtVerifier } from './tokens/jwt/jwtVerifier.ts';
import { openTokenUses } from './tokens/tokenUses.ts';
import { type TruncationWatch, watchTruncation } from './truncation.ts';
import { UploadsInFlight } from './uploads/receiveUpload.ts';
import { openSweep } from './uploads/sweep.ts';
import type { UploadStore } from './uploads/uploadStore.ts';
import { openAttachmentChecks } from './uploads/uploads.ts';
import { watchLag } from './watchLag.ts';

export interface IngestServiceDeps {
  readonly log: Log;
  readonly store: Store;
  /** Read-only access to ClickHouse for SQL queries of operators. Undefined if no read-only account is configured. */
  readonly reader: AddressedStore | undefined;
  readonly uploads: UploadStore | undefined;
  readonly registry: SchemaRegistry;
  readonly directory: DirectoryHandle;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: IngestMetrics;
  readonly health: Health;
  readonly lifecycle: Lifecycle;
  readonly adminToken: string;
  readonly pages: AdminPages;
  readonly settings: {
    readonly isEngineLocal: boolean;
    readonly toGames: ListenAddress;
    readonly toOperators: ListenAddress;
    /** True if this worker serves the operators' listener. Only one of several workers serves the operators' listener. */
    readonly hasOperators: boolean;
    /** Host names that operators can use in the `Host` header. The loopback names are always allowed. */
    readonly adminAllowedHosts: readonly string[];
    readonly defaultRevision: Revision;
    /** Base URL of ingest for games, without a trailing slash. If it is empty, URLs contain the `Host` of the request. */
    readonly publicUrl: string;
    readonly corsOrigins: AllowedOrigins;
    readonly hasDocs: boolean;
    /** Maximum number of links from one report to the events of its session. */
    readonly maxSessionLinks: number;
    /** Maximum number of erased sessions and reports. The process keeps all of their ids in memory. */
    readonly maxErasedIds: number;
    readonly trustedProxies: BlockList;
    readonly jwt?: JwtOptions | undefined;
  };
}

export interface IngestService {
  readonly port: number;
  readonly adminPort: number | undefined;
  readonly failed: Promise<never>;
}

export async function startIngest(deps: IngestServiceDeps): Promise<IngestService> {
  const { log, store, registry, directory, clock, logger, metrics, health, lifecycle, settings } = deps;
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
  const { cursorCiphers, verifier, linkedEvents } = await openReaders(deps, codec, events);
  const deadLetters = await openDeadLetterAdmin({ ...deps, erased: erasuresOf(directory) });
  lifecycle.onStop('dead letters', () => deadLetters.close());
  registerWarnings(deps);
  startRetention(deps, projections);

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
  const toOperators = adminApp({
    ...{ directory, store, reader: deps.reader, reports, health, clock, logger, metrics },
    ...{ adminToken: deps.adminToken, pages: deps.pages, uploads: deps.uploads },
    ...{ ...tokens, ingest, verifier, deadLetters, perReport, defaultRevision: settings.defaultRevision },
    ...{ ledger: { store, projection: events, clock }, audit: await openAudit(deps) },
    erasures: await startErasures(deps, deadLetters, projections),
    hosts: [settings.toOperators.host, ...settings.adminAllowedHosts],
  });
  const [open, admin] = await openListeners(deps, toGames, toOperators, tokens.unauthenticated);
  // Stops the streams before the listeners. A listener stops only after all open responses, such as streams, have ended.
  lifecycle.onStop('streams of linked events', () => linkedEvents.close());
  lifecycle.onStop('recount', () => verifier.close());
  const failed = Promise.race([sessions.failed, reports.failed, directory.failed]);
  return { port: open.port, adminPort: admin?.port, failed };
}

async function openListeners(
  { settings, lifecycle }: IngestServiceDeps,
  toGames: RequestListener,
  toOperators: Koa,
  guard: UnauthenticatedLimit,
) {
  const toMalformed = commonCorsHeaders(settings.corsOrigins);
  const refusalOf = (why: RejectionReason) => malformedRequest(why, toMalformed);
  const open = await listen(toGames, settings.toGames, refusalOf, isUpload, guard);
  const operators = rejectLimitedAddresses(toOperators.callback(), guard);
  const admin = settings.hasOperators
    ? await listen(operators, settings.toOperators, malformedRequest, undefined, guard)
    : undefined;
  lifecycle.onStop('listeners', async () => void (await Promise.all([open.close(), admin?.close()])));
  return [open, admin] as const;
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
  { directory, clock, metrics, settings, adminToken }: IngestServiceDeps,
  jwts: JwtVerifier | undefined,
): UnauthenticatedLimit {
  const adminSha256 = sha256Hex(adminToken);
  const isJwt = (text: string): boolean => jwts?.isJwt(text) === true;
  return new UnauthenticatedLimit({
    ...{ clock, metrics, trustedProxies: settings.trustedProxies },
    credentialsOf: (request) => {
      const { authorization, cookie } = request.headers;
      const now = { directory: directory.current, nowMs: clock.now(), adminSha256 };
      const credentials = credentialsIn(authorization, now, isJwt);
      const isLeftToRoute = credentials === 'none' && (cookie !== undefined || isUpload(request));
      return isLeftToRoute ? 'unknown' : credentials;
    },
  });
}

function startRetention(
  { uploads, lifecycle, ...deps }: IngestServiceDeps,
  { events, sessions, reports }: Projections,
): void {
  const retention = openRetention({
    ...{ ...deps, uploads, projects: deps.directory.current.projects },
    playerKey: () => playerKey({ ...deps, uploads, lifecycle }),
    logRetentionMs: () => maxLogRetentionMs(deps.log),
    caughtUp: async () =>
      void (await Promise.all([events, sessions, reports].map((projection) => projection.caughtUp('all')))),
  });
  lifecycle.onStop('retention', () => retention.close());
  if (uploads === undefined) return;
  const sweep = openSweep({ ...deps, uploads, projection: reports });
  lifecycle.onStop('sweep of uploads', () => sweep.close());
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

/** Opens the components that read records from the log. Each of these components omits erased data. */
async function openReaders(
  deps: IngestServiceDeps,
  codec: Codec<EventsAccepted>,
  projection: ProjectionProgress,
) {
  const cursorCiphers = openCursorCiphers(deps);
  const reading = { ...deps, cursorCiphers, erased: deps.directory.current.erased };
  return {
    cursorCiphers,
    verifier: await openVerifier({ ...reading, storedRows: openStoredRows(deps.store), codec, projection }),
    linkedEvents: await openLinkedEventStreams(reading),
  };
}

async function startErasures(
  deps: IngestServiceDeps,
  deadLetters: DeadLetterAdmin,
  projections: Projections,
) {
  const { events, sessions, reports, links } = projections;
  const { lifecycle, settings } = deps;
  const sessionCodec = await createCodec(deps.registry, sessionRegistered);
  const players = openPlayerSessions({
    ...deps,
    deadLetters,
    sessionProjection: sessions,
    sessionCodec,
    playerKey: () => playerKey(deps),
  });
  const runs = runErasures({
    ...{ ...deps, deadLetters, players },
    projections: [events, sessions, reports, links],
  });
  lifecycle.onStop('erasures', () => runs.close());
  const { maxErasedIds } = settings;
  return openErasures({ ...deps, players, reportProjection: reports, maxErasedIds }, () => runs.notify());
}

async function playerKey(deps: IngestServiceDeps): Promise<PlayerKey> {
  return playerKeyOf(await sharedSecret(deps, 'players'));
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
  const { health, store, log, lifecycle } = deps;
  lifecycle.onStop('lag of the groups', watchLag(deps));
  health.warn('clickhouse', async () => ((await store.ping()) ? undefined : 'ClickHouse does not answer'));
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
