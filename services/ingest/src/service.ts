/** Starts the ingest service: constructs its parts and the listener for games. */
import { randomUUID } from 'node:crypto';
import type { BlockList } from 'node:net';

import { cachedTableUuids } from '@questlog/runtime/clickhouse/restored/tableUuids';
import { openCursorCiphers } from '@questlog/runtime/cursors/cursorCiphers';
import { warnWithoutHeartbeat } from '@questlog/runtime/directory/heartbeat';
import { openAddressLimits } from '@questlog/runtime/http/limits/addresses';
import { UnauthenticatedLimit } from '@questlog/runtime/http/limits/unauthenticated';
import { malformedRequest } from '@questlog/runtime/http/problems';
import type { Log } from '@questlog/runtime/log/log';
import { watchLinks, watchProjections } from '@questlog/runtime/log/projection/projection';
import type { TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import { listen } from '@questlog/runtime/process/listener/listen';
import type { RejectionReason } from '@questlog/runtime/process/listener/rejections';
import { createCodec } from '@questlog/runtime/registry/registry';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { IngestContext } from './context.ts';
import { openCaches } from './entityCache/openCaches.ts';
import { EventBatch } from './events/eventBatch.ts';
import { openQuotas } from './events/quotas.ts';
import { openReplays } from './events/replays.ts';
import { RandomPool } from './events/storeEvents.ts';
import { credentialsIn } from './http/authenticate.ts';
import { commonCorsHeaders } from './http/cors.ts';
import { gamesHandler } from './http/publicApp.ts';
import { isUpload } from './http/uploadHandlers.ts';
import { openRequestOutcomes } from './ledger/requestOutcomes.ts';
import { fairLookups, fairReads, openBodyLimits } from './limits/fairSharing.ts';
import { watchIngestCount } from './limits/ingestCount.ts';
import { openLimits } from './limits/limits.ts';
import { openLinkedEventStreams } from './linkedEvents/streams.ts';
import { openRejections } from './rejections/rejections.ts';
import type { IngestOptions } from './settings.ts';
import { holderOf } from './tokens/credential.ts';
import { openTokenUses } from './tokens/tokenUses.ts';
import { type TruncationWatch, watchTruncation } from './truncation.ts';
import { UploadsInFlight } from './uploads/receiveUpload.ts';
import { openAttachmentChecks } from './uploads/uploads.ts';

export interface IngestSettings extends IngestOptions {
  readonly isEngineLocal: boolean;
  readonly trustedProxies: BlockList;
}

export interface IngestService {
  readonly port: number;
  readonly failed: Promise<never>;
}

export async function startIngest(
  context: IngestContext,
  uploads: UploadStore | undefined,
  settings: IngestSettings,
): Promise<IngestService> {
  const { log, store, directory, clock, logger, metrics, lifecycle } = context;
  const { projects } = directory.current;
  const partitions = await log.partitionCount(TOPICS.events);
  const projections = watchProjections(log, cachedTableUuids(store));

  const quotas = openQuotas(context, projections.events);
  lifecycle.onStop('quotas', () => quotas.close());
  const { resources } = metrics;
  const lookUps = { store: fairLookups(store, projects, { resources }) };
  const replays = openReplays({ ...lookUps, clock, projection: projections.events, metrics });
  const truncations = watchTruncations(context, [quotas, replays]);
  const { ownAppends } = truncations;
  const { sessions, reports } = await openCaches({ ...context, ...lookUps }, projections, truncations);
  const codec = await createCodec(context.registry, eventsAccepted);
  const cursorCiphers = openCursorCiphers(directory, clock);
  const linkedEvents = await openLinkedEventStreams(context, cursorCiphers);
  warnWithoutHeartbeat(directory, clock, context.health);
  warnOfLeaderless(context);

  const known = { ...lookUps, sessions, reports, clock };
  const tokens = await openTokens(context, settings);
  const processId = randomUUID();
  const received = openRequestOutcomes({ ...context, dropped: metrics.ledgerDropped }, processId, metrics);
  const rejections = openRejections({ ...context, dropped: metrics.rejectsDropped });
  const limits = openLimits(clock, metrics, watchIngestCount(context, processId));
  const random = new RandomPool();
  const storing = { log, codec, quotas, limits, received, ownAppends, random, metrics, partitions };
  const { defaultRevision, corsOrigins, hasDocs, publicUrl, maxSessionLinks } = settings;
  const toGames = gamesHandler({
    ...{ ...tokens, directory: directory.current, clock, logger, metrics, tracing: context.tracing },
    ...{ defaultRevision, corsOrigins, hasDocs, linkedEvents, limits, received, rejections },
    bodies: openBodyLimits(metrics.bodyBytesInFlight, resources),
    ingest: { ...known, ...storing, replays, batch: new EventBatch() },
    reads: {
      ...{ ...known, projections, partitions, cursorCiphers },
      store: fairReads(store, projects, { ...settings, resources }),
      waitForLinks: watchLinks(log, projections.links),
    },
    reports: {
      ...{
        ...known,
        ...storing,
        projection: projections.events,
        perReport: new KeyedMutex(),
        maxSessionLinks,
      },
      checkAttachments: openAttachmentChecks({ store: uploads, clock }),
    },
    uploads: {
      ...{ store: uploads, publicUrl, clock, sessions },
      inFlight: new UploadsInFlight(metrics.uploadsInFlight, resources),
      projectOf: (target) => holderOf(directory.current, target, clock.now()),
    },
  });
  const toMalformed = commonCorsHeaders(corsOrigins);
  const refusalOf = (why: RejectionReason) => malformedRequest(why, toMalformed);
  const listener = await listen(toGames, settings.toGames, refusalOf, isUpload, tokens.unauthenticated);
  lifecycle.onStop('listener', () => listener.close());
  // Stops the streams before the listener, because the listener waits for the end of all responses, including streams.
  lifecycle.onStop('streams of linked events', () => linkedEvents.close());
  const failed = Promise.race([sessions.failed, reports.failed, directory.failed]);
  return { port: listener.port, failed };
}

async function openTokens(
  { directory, clock, logger, metrics, lifecycle }: IngestContext,
  { jwt, trustedProxies }: IngestSettings,
) {
  const uses = openTokenUses(directory, clock, logger);
  lifecycle.onStop('uses of tokens', () => uses.close());
  const addresses = openAddressLimits(clock, metrics, trustedProxies);
  // Loads the library jose only if JWTs are configured, because loading the library takes time.
  const jwts = jwt && (await import('./tokens/jwt/jwtVerifier.ts')).openJwtVerifier(jwt, clock, logger);
  const isJwt = (text: string): boolean => jwts?.isJwt(text) === true;
  const unauthenticated = new UnauthenticatedLimit(clock, metrics, trustedProxies, (request) => {
    const now = { directory: directory.current, nowMs: clock.now() };
    const credentials = credentialsIn(request.headers.authorization, now, isJwt);
    const isLeftToRoute = credentials === 'none' && isUpload(request);
    return isLeftToRoute ? 'unknown' : credentials;
  });
  return { uses, addresses, jwts, unauthenticated };
}

/** Informs all caches of this process about truncations of the log. */
function watchTruncations(
  context: IngestContext,
  participants: readonly TruncationParticipant[],
): TruncationWatch {
  const watch = watchTruncation(context, participants);
  context.lifecycle.onStop('cuts', () => watch.close());
  context.directory.onTruncation(({ offset, missing }) => {
    watch.onTruncated({ topic: TOPICS.directory, partition: 0, offset });
    context.metrics.appendedAgain.inc({ topic: TOPICS.directory }, missing.length);
  });
  return watch;
}

/** Adds a health warning about partitions without a leader, for the topics to which requests append. */
function warnOfLeaderless({ log, health }: IngestContext): void {
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
