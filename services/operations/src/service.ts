/** Starts the operations service: constructs its parts and the operators' listener. */
import type { BlockList } from 'node:net';

import type { AddressedStore } from '@questlog/runtime/clickhouse/store';
import { type Projections, watchProjections } from '@questlog/runtime/consumer/projectionProgress';
import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import { sharedSecret } from '@questlog/runtime/cursors/cursorCiphers';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import { writeHeartbeats } from '@questlog/runtime/directory/heartbeat';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { BEARER } from '@questlog/runtime/http/bearerToken';
import { UnauthenticatedLimit } from '@questlog/runtime/http/limits/unauthenticated';
import { malformedRequest, rejectLimitedAddresses } from '@questlog/runtime/http/problems';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import { listen } from '@questlog/runtime/process/listener/listen';
import type { ListenAddress } from '@questlog/runtime/process/listener/listenAddress';
import { createCodec } from '@questlog/runtime/registry/registry';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { openAudit } from './audit/audit.ts';
import { type DeadLetterAdmin, openDeadLetterAdmin } from './deadLetters/deadLetters.ts';
import { openErasures } from './erasures/erasures.ts';
import { openPlayerSessions } from './erasures/playerSessions.ts';
import { runErasures } from './erasures/runErasures.ts';
import { maxLogRetentionMs } from './expired/expiredSessions.ts';
import { type PlayerKey, playerKeyOf } from './expired/playerHash.ts';
import { type AdminPages, adminApp } from './http/adminApp.ts';
import { openStoredRows } from './ledger/storedRows.ts';
import { openVerifier } from './ledger/verify.ts';
import type { OperationsMetrics } from './metrics.ts';
import { openAppendReport } from './reports/appendReport.ts';
import { openRetention } from './retention/retention.ts';
import { openSweep } from './retention/sweep.ts';
import { watchLag } from './watchLag.ts';

export interface OperationsDeps extends ServiceDeps {
  /** Read-only access to ClickHouse for SQL queries of operators. Undefined if no read-only account is configured. */
  readonly reader: AddressedStore | undefined;
  readonly uploads: UploadStore | undefined;
  readonly directory: DirectoryHandle;
  readonly metrics: OperationsMetrics;
  readonly lifecycle: Lifecycle;
  readonly adminToken: string;
  readonly pages: AdminPages;
  /** Base URL of the games' listener, without a trailing slash. Empty if it is not known. */
  readonly gamesUrl: string;
  readonly settings: {
    readonly address: ListenAddress;
    /** Host names that operators can use in the `Host` header. The loopback names are always allowed. */
    readonly allowedHosts: readonly string[];
    /** Maximum number of erased sessions and reports. The process keeps all of their ids in memory. */
    readonly maxErasedIds: number;
    readonly trustedProxies: BlockList;
  };
}

export interface Operations {
  readonly port: number;
}

export async function startOperations(deps: OperationsDeps): Promise<Operations> {
  const { store, directory, clock, lifecycle, settings } = deps;
  const projections = watchProjections(deps.log, store);
  const deadLetters = await openDeadLetterAdmin(deps);
  lifecycle.onStop('dead letters', () => deadLetters.close());
  lifecycle.onStop('lag of the groups', watchLag(deps));
  startRetention(deps, projections);
  lifecycle.onStop('heartbeats', writeHeartbeats(directory, clock, deps.logger));
  const verifier = await openVerifier({
    ...{ ...deps, erased: directory.current.erased, storedRows: openStoredRows(store) },
    ...{ codec: await createCodec(deps.registry, eventsInBytes), projection: projections.events },
  });
  const unauthenticated = openUnauthenticated(deps);
  const app = adminApp({
    ...{ ...deps, verifier, deadLetters, unauthenticated },
    ledger: { store, projection: projections.events, clock },
    reportProjection: projections.reports,
    appendReport: await openAppendReport(deps),
    audit: await openAudit(deps),
    erasures: await startErasures(deps, deadLetters, projections),
    hosts: [settings.address.host, ...settings.allowedHosts],
  });
  const handler = rejectLimitedAddresses(app.callback(), unauthenticated);
  const listener = await listen(handler, settings.address, malformedRequest, undefined, unauthenticated);
  lifecycle.onStop("operators' listener", () => listener.close());
  lifecycle.onStop('recount', () => verifier.close());
  return { port: listener.port };
}

function openUnauthenticated({ clock, metrics, adminToken, settings }: OperationsDeps): UnauthenticatedLimit {
  const expected = sha256Hex(adminToken);
  return new UnauthenticatedLimit(clock, metrics, settings.trustedProxies, ({ headers }) => {
    const { authorization = '', cookie } = headers;
    const text = BEARER.exec(authorization)?.[1];
    // The console's middleware checks the cookie.
    if (text === undefined) return cookie === undefined ? 'none' : 'unknown';
    return sha256Hex(text) === expected ? 'valid' : 'invalid';
  });
}

function startRetention(deps: OperationsDeps, { events, sessions, reports }: Projections): void {
  const { uploads, lifecycle, directory, log } = deps;
  const retention = openRetention({
    ...{ ...deps, projects: directory.current.projects, playerKey: () => playerKey(deps) },
    logRetentionMs: () => maxLogRetentionMs(log),
    caughtUp: async () =>
      void (await Promise.all([events, sessions, reports].map((projection) => projection.caughtUp('all')))),
  });
  lifecycle.onStop('retention', () => retention.close());
  if (uploads === undefined) return;
  const sweep = openSweep({ ...deps, uploads, projection: reports });
  lifecycle.onStop('sweep of uploads', () => sweep.close());
}

async function startErasures(deps: OperationsDeps, deadLetters: DeadLetterAdmin, projections: Projections) {
  const { events, sessions, reports, links } = projections;
  const players = openPlayerSessions({
    ...{ ...deps, deadLetters, sessionProjection: sessions, playerKey: () => playerKey(deps) },
    sessionCodec: await createCodec(deps.registry, sessionRegistered),
  });
  const runs = runErasures({
    ...deps,
    deadLetters,
    players,
    projections: [events, sessions, reports, links],
  });
  deps.lifecycle.onStop('erasures', () => runs.close());
  const { maxErasedIds } = deps.settings;
  return openErasures({ ...deps, players, reportProjection: reports, maxErasedIds }, () => runs.notify());
}

async function playerKey(deps: OperationsDeps): Promise<PlayerKey> {
  return playerKeyOf(await sharedSecret(deps.directory, deps.clock, 'players'));
}
