/** Handles the requests of `/admin/erasures`. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Directory } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { problem, rejectionOf } from '@questlog/runtime/http/core/fieldProblems';
import { pathUuid, Rejected } from '@questlog/runtime/http/rejected';
import type { Log } from '@questlog/runtime/log/log';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import type { Clock } from '@questlog/runtime/process/clock';
import type { ErasureInput, ErasureOutput } from '@questlog/schemas/http/erasure';
import type { ErasedPlayer, Erasure, IdsOfProject } from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { maxLogRetentionMs } from '../expired/expiredSessions.ts';
import { erasedExports } from '../exports/erasedExports.ts';
import { mergeParts, requestIdOf, splitIntoParts } from './core/parts.ts';
import { MAX_SESSIONS_PER_RECORD, scopesOf, ZERO_COUNTS } from './core/scope.ts';
import { countReports } from './eraseRows.ts';
import type { Owner, PlayerSessions } from './playerSessions.ts';

export interface ErasureDeps {
  readonly directory: DirectoryHandle;
  readonly log: Pick<Log, 'retention'>;
  readonly store: Store;
  readonly players: Pick<PlayerSessions, 'sessionsOf'>;
  readonly reportProjection: Pick<ProjectionProgress, 'caughtUp'>;
  readonly clock: Clock;
  readonly maxErasedIds: number;
}

export interface Erasures {
  /**
   * Requests an erasure. Resolves when the log contains the erasure.
   * @throws Rejected if the request is not valid
   * @throws Unavailable if the sessions of a player cannot be read
   */
  request(input: ErasureInput): Promise<ErasureOutput>;
  /** @throws Rejected `not_found` if the erasure does not exist */
  find(id: string): ErasureOutput;
  list(): ErasureOutput[];
}

/** Maximum number of erasures per response, because erasures are never deleted and their number grows. */
export const MAX_LISTED = 1_000;

export function openErasures(deps: ErasureDeps, onRequest: () => void): Erasures {
  const { directory, clock } = deps;
  const { erasures } = directory.current;
  return {
    request: async (input) => {
      await directory.caughtUp();
      const owner = resolveOwner(directory.current, input);
      const player = playerOf(input);
      const sessionId = canonicalUuid(input.sessionId ?? '') ?? null;
      if (player !== null && sessionId !== null) {
        throw rejectionOf(
          problem('/player', 'field_invalid', 'an erasure takes either sessionId or player, not both'),
        );
      }
      const requestedAt = clock.now();
      const target = { ...owner, sessionId, player, requestedAt };
      const sessions = await resolveSessions(deps, target, input.many ?? false);
      const [first = [], ...others] = splitIntoParts(sessions ?? [], MAX_SESSIONS_PER_RECORD);
      const erasure: Erasure = {
        ...{ id: randomUUID(), ...target, state: 'queued', reports: [] },
        sessions: sessions === null ? null : first,
        problem: null,
        ...{ found: ZERO_COUNTS, hiddenAt: null, goneAt: null },
        logExpiresAt: await logExpiryMs(deps.log, requestedAt),
      };
      const write = async (entity: Erasure): Promise<void> =>
        await directory.change('erasure', entity.id, () => ({ entity, answer: undefined }));
      for (const part of others)
        await write({ ...erasure, id: randomUUID(), partOf: erasure.id, sessions: part });
      await write(erasure);
      onRequest();
      return toOutput(erasure, directory.current);
    },
    find: (id) => {
      const named = pathUuid(id);
      // Accepts the id of an erasure request and the ids of its parts, because log messages can contain the id of a part.
      const requestId = requestIdOf(erasures.get(named) ?? { id: named });
      const [first, ...others] = [...erasures.values()].filter((one) => requestIdOf(one) === requestId);
      if (first === undefined) throw new Rejected('not_found', `there is no erasure ${id}`);
      return toOutput(mergeParts(first, others), directory.current);
    },
    list: () => {
      const newestFirst = [...erasures.values()].sort((a, b) => b.requestedAt - a.requestedAt);
      const all = [...Map.groupBy(newestFirst, requestIdOf).values()].slice(0, MAX_LISTED);
      return all.flatMap(([first, ...others]) =>
        first === undefined ? [] : toOutput(mergeParts(first, others), directory.current),
      );
    },
  };
}

/** Last day of the year 9999. Responses show this day as the expiry if the log keeps records forever. */
const NEVER_MS = Date.UTC(9999, 11, 31);

async function logExpiryMs(log: ErasureDeps['log'], requestedAt: number): Promise<number> {
  return Math.min(NEVER_MS, requestedAt + (await maxLogRetentionMs(log)));
}

function resolveOwner({ tenants, projects }: Directory, input: ErasureInput): Owner {
  const tenantId = canonicalUuid(input.tenantId) ?? '';
  if (!tenants.has(tenantId)) throw new Rejected('not_found', `there is no tenant ${input.tenantId}`);
  if (input.projectId === undefined) return { tenantId, projectId: null };
  const projectId = canonicalUuid(input.projectId) ?? '';
  if (projects.get(projectId)?.tenantId === tenantId) return { tenantId, projectId };
  throw new Rejected('not_found', `tenant ${input.tenantId} has no project ${input.projectId}`);
}

function playerOf({ player }: ErasureInput): ErasedPlayer | null {
  if (player === undefined) return null;
  return { externalId: player.externalId ?? null, deviceId: player.deviceId ?? null };
}

async function resolveSessions(
  deps: ErasureDeps,
  target: Owner & Pick<Erasure, 'sessionId' | 'player' | 'requestedAt'>,
  allowsMany: boolean,
): Promise<IdsOfProject[] | null> {
  const { tenantId, projectId, sessionId, player } = target;
  // Waits until ClickHouse has all existing reports, because the links of a report are found through the report's row.
  if (player !== null || sessionId !== null) await deps.reportProjection.caughtUp('all');
  if (player !== null) return await idsOfPlayer(deps, target, player, allowsMany);
  if (sessionId === null) return null;
  const { projects } = deps.directory.current;
  const all = [...projects.values()].filter((project) => project.tenantId === tenantId).map(({ id }) => id);
  const sessions = (projectId === null ? all : [projectId]).map((project) => ({
    projectId: project,
    ids: [sessionId],
  }));
  await checkIdLimit(deps, { ...target, sessions });
  return sessions;
}

/** @throws Rejected if the total number of erased ids would exceed `maxErasedIds` */
async function checkIdLimit(
  { store, directory, maxErasedIds }: ErasureDeps,
  target: Owner & { readonly sessions: readonly IdsOfProject[]; readonly requestedAt: number },
): Promise<void> {
  const { erased } = directory.current;
  const isNew = (projectId: string) => (id: string) => !erased.hasSession(target.tenantId, projectId, id);
  let newIds = target.sessions.reduce((sum, of) => sum + of.ids.filter(isNew(of.projectId)).length, 0);
  for (const scope of scopesOf(target)) {
    if (erased.ids + newIds > maxErasedIds) break;
    newIds += await countReports(store, scope);
  }
  if (erased.ids + newIds <= maxErasedIds) return;
  const detail = `the ids of ${erased.ids} erased sessions and reports are already in the memory of every process. This erasure would add at least ${newIds} ids, and the limit is ${maxErasedIds}. Increase QUESTLOG_ERASED_IDS, or erase the whole project or tenant, which needs no ids.`;
  throw new Rejected('invalid_request', detail);
}

async function idsOfPlayer(
  deps: ErasureDeps,
  { tenantId, projectId, requestedAt }: Owner & Pick<Erasure, 'requestedAt'>,
  player: ErasedPlayer,
  allowsMany: boolean,
): Promise<IdsOfProject[]> {
  const limit = (allowsMany ? deps.maxErasedIds : MAX_SESSIONS_PER_RECORD) + 1;
  const found = await deps.players.sessionsOf({ tenantId, projectId }, player, limit);
  if (found.length > MAX_SESSIONS_PER_RECORD && !allowsMany) {
    const detail = `more than ${MAX_SESSIONS_PER_RECORD} sessions match. Check that the id belongs to one player and is not, for example, a device model. To erase all of these sessions, set "many": true`;
    throw rejectionOf(problem('/player', 'field_invalid', detail));
  }
  const byProject = Map.groupBy(found, (session) => session.projectId);
  const sessions = [...byProject].map(([project, of]) => ({
    projectId: project,
    ids: of.map(({ id }) => id),
  }));
  await checkIdLimit(deps, { tenantId, projectId, sessions, requestedAt });
  return sessions;
}

function toOutput(erasure: Erasure, directory: Directory): ErasureOutput {
  const { id, state, problem: why, found, requestedAt, ...of } = erasure;
  const { tenantId, projectId, sessionId, player } = of;
  // An erasure that waits for a node is stored as `queued`, because it has not deleted anything.
  const shown = state === 'queued' && why !== null ? 'running' : state;
  return {
    ...{ id, state: shown, problem: why },
    receipt: {
      asked: { tenantId, projectId, sessionId, player, at: timeOf(requestedAt) },
      found,
      exports: erasedExports(directory, erasure),
      hiddenAt: of.hiddenAt === null ? null : timeOf(of.hiddenAt),
      goneFromDiskAt: of.goneAt === null ? null : timeOf(of.goneAt),
      logExpiresAt: timeOf(of.logExpiresAt),
    },
  };
}

function timeOf(millis: number): string {
  return new Date(millis).toISOString();
}
