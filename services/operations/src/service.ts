/** Starts the operations service: constructs its parts and the operators' listener. */
import type { BlockList } from 'node:net';

import { cachedTableUuids } from '@questlog/runtime/clickhouse/restored/tableUuids';
import { sharedSecret } from '@questlog/runtime/cursors/cursorCiphers';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import { writeHeartbeats } from '@questlog/runtime/directory/heartbeat';
import { BEARER } from '@questlog/runtime/http/bearerToken';
import { UnauthenticatedLimit } from '@questlog/runtime/http/limits/unauthenticated';
import { malformedRequest, rejectLimitedAddresses } from '@questlog/runtime/http/problems';
import { watchProjections } from '@questlog/runtime/log/projection/projection';
import { listen } from '@questlog/runtime/process/listener/listen';
import type { ListenAddress } from '@questlog/runtime/process/listener/listenAddress';
import { createCodec } from '@questlog/runtime/registry/registry';
import type { S3StoreOptions } from '@questlog/runtime/uploads/s3Store';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { openAudit } from './audit/audit.ts';
import type { OperationsContext } from './context.ts';
import { type DeadLetterAdmin, openDeadLetterAdmin } from './deadLetters/deadLetters.ts';
import { openReaders } from './directory/readers.ts';
import { type Erasures, openErasures } from './erasures/erasures.ts';
import { openPlayerSessions } from './erasures/playerSessions.ts';
import { runErasures } from './erasures/runErasures.ts';
import { maxLogRetentionMs } from './expired/expiredSessions.ts';
import { type PlayerKey, playerKeyOf } from './expired/playerHash.ts';
import { runExports } from './exports/runExports.ts';
import { type AdminPages, adminApp } from './http/adminApp.ts';
import { openStoredRows } from './ledger/storedRows.ts';
import { openVerifier } from './ledger/verify.ts';
import { openAppendReport } from './reports/appendReport.ts';
import { openRetention } from './retention/retention.ts';
import { openSweep } from './retention/sweep.ts';
import type { OperationsOptions } from './settings.ts';
import { watchDisks } from './watchDisks.ts';
import { watchLag } from './watchLag.ts';
import { watchLedger } from './watchLedger.ts';
import { watchParts } from './watchParts.ts';
import { watchReplicas } from './watchReplicas.ts';

export interface OperationsSettings extends OperationsOptions {
  readonly address: ListenAddress;
  readonly trustedProxies: BlockList;
  /** Base URL of the games' listener, without a trailing slash. Empty if the URL is unknown. */
  readonly gamesUrl: string;
  /** Returns the connection to a bucket. */
  readonly bucketOf: (bucket: string) => S3StoreOptions;
}

export interface Operations {
  readonly port: number;
}

export async function startOperations(
  shared: Omit<OperationsContext, 'projections'>,
  pages: AdminPages,
  settings: OperationsSettings,
): Promise<Operations> {
  const { log, store, directory, clock, logger, lifecycle } = shared;
  const context = { ...shared, projections: watchProjections(log, cachedTableUuids(store)) };
  const deadLetters = await openDeadLetterAdmin(context);
  lifecycle.onStop('dead letters', () => deadLetters.close());
  lifecycle.onStop('lag of the groups', watchLag(context));
  lifecycle.onStop('differences of the ledger', watchLedger(context));
  lifecycle.onStop('parts of the tables', watchParts(context));
  lifecycle.onStop('disks', watchDisks(context));
  lifecycle.onStop('replicas', watchReplicas(context));
  startRetention(context);
  startExports(context, settings.bucketOf);
  lifecycle.onStop('heartbeats', writeHeartbeats(directory, clock, logger));
  const { events, reports } = context.projections;
  const verifier = await openVerifier(context, openStoredRows(store), events);
  const unauthenticated = openUnauthenticated(context, settings.trustedProxies);
  const app = adminApp({
    ...{ ...context, verifier, deadLetters, unauthenticated, pages, gamesUrl: settings.gamesUrl },
    ledger: { store, projection: events, clock },
    reportProjection: reports,
    applyReaders: await openReaders(directory, context.studioAccounts),
    appendReport: await openAppendReport(context),
    audit: await openAudit(context),
    erasures: await startErasures(context, deadLetters, settings.maxErasedIds),
    hosts: [settings.address.host, ...settings.allowedHosts],
  });
  const handler = rejectLimitedAddresses(app.callback(), unauthenticated);
  const listener = await listen(handler, settings.address, malformedRequest, undefined, unauthenticated);
  lifecycle.onStop("operators' listener", () => listener.close());
  lifecycle.onStop('recount', () => verifier.close());
  return { port: listener.port };
}

function openUnauthenticated(
  { clock, metrics, adminToken }: OperationsContext,
  trustedProxies: BlockList,
): UnauthenticatedLimit {
  const expected = sha256Hex(adminToken);
  return new UnauthenticatedLimit(clock, metrics, trustedProxies, ({ headers }) => {
    const { authorization = '', cookie } = headers;
    const text = BEARER.exec(authorization)?.[1];
    // Does not check a cookie here, because the console's middleware checks the cookie.
    if (text === undefined) return cookie === undefined ? 'none' : 'unknown';
    return sha256Hex(text) === expected ? 'valid' : 'invalid';
  });
}

function startRetention(context: OperationsContext): void {
  const { uploads, lifecycle, directory, log, projections } = context;
  const { events, sessions, reports } = projections;
  const retention = openRetention({
    ...{ ...context, projects: directory.current.projects, playerKey: () => playerKey(context) },
    logRetentionMs: () => maxLogRetentionMs(log),
    caughtUp: async () =>
      void (await Promise.all([events, sessions, reports].map((projection) => projection.caughtUp('all')))),
  });
  lifecycle.onStop('retention', () => retention.close());
  if (uploads === undefined) return;
  const sweep = openSweep(context, uploads);
  lifecycle.onStop('sweep of uploads', () => sweep.close());
}

function startExports(context: OperationsContext, bucketOf: OperationsSettings['bucketOf']): void {
  const stop = runExports({
    ...context,
    openFolder: async (path, beforeChange) => {
      const { bucketAndPrefix, openBucketFolder } = await import('@questlog/runtime/exports/bucketFolder');
      const { bucket, prefix } = bucketAndPrefix(path);
      return await openBucketFolder(bucketOf(bucket), prefix, beforeChange);
    },
  });
  context.lifecycle.onStop('exports', stop);
}

async function startErasures(
  context: OperationsContext,
  deadLetters: DeadLetterAdmin,
  maxErasedIds: number,
): Promise<Erasures> {
  const { sessions, reports } = context.projections;
  const players = openPlayerSessions({
    ...{ ...context, deadLetters, sessionProjection: sessions, playerKey: () => playerKey(context) },
    sessionCodec: await createCodec(context.registry, sessionRegistered),
  });
  const projections = Object.values(context.projections);
  const runs = runErasures({ ...context, deadLetters, players, projections });
  context.lifecycle.onStop('erasures', () => runs.close());
  return openErasures({ ...context, players, reportProjection: reports, maxErasedIds }, () => runs.notify());
}

async function playerKey({ directory, clock }: OperationsContext): Promise<PlayerKey> {
  return playerKeyOf(await sharedSecret(directory, clock, 'players'));
}
