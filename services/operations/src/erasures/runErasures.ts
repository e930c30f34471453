/** Runs erasures, the oldest first. An interrupted step can run again, because each step erases the data that is left. */
import { randomUUID } from 'node:crypto';
import { requireAllReplicas } from '@questlog/runtime/clickhouse/cluster/eachNode';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import type { Clock } from '@questlog/runtime/process/clock';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { Backoff, Notifier, pause, settledSoon } from '@questlog/runtime/process/waiting';
import { storageKey, type UploadKey } from '@questlog/runtime/uploads/core/uploadKey';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { ErasedData } from '@questlog/schemas/erased';
import { UPLOAD_ADDRESS_LIFETIME_MS } from '@questlog/schemas/http/upload';
import type { Erasure, ErasureFound, IdsOfProject, Project } from '@questlog/schemas/topics/directoryEntry';
import { countOf, requestIdOf, splitIntoParts } from './core/parts.ts';
import {
  EARLY_TABLES,
  ERASED_TABLES,
  type ErasureScope,
  earlyCounts,
  MAX_IDS_PER_RECORD,
  maxCounts,
  scopesOf,
  sumCounts,
  ZERO_COUNTS,
} from './core/scope.ts';
import { existingFiles, removeFiles, unnamedFiles } from './eraseFiles.ts';
import {
  countRows,
  dropFromDisk,
  hideRows,
  recordErasedEvents,
  reportsIn,
  restoreSettings,
} from './eraseRows.ts';
import type { PlayerSessions } from './playerSessions.ts';

export interface ErasureRunDeps {
  readonly directory: DirectoryHandle;
  readonly store: Store;
  readonly uploads: UploadStore | undefined;
  readonly deadLetters: {
    discardHidden(erased: ErasedData): Promise<number>;
  };
  readonly projections: readonly Pick<ProjectionProgress, 'caughtUp'>[];
  readonly players: Pick<PlayerSessions, 'unresolved'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Time after which another process runs an unfinished erasure. The process that received the request is then probably down. */
const TAKEOVER_AFTER_MS = 10 * 60_000;
const POLL_INTERVAL_MS = 60_000;
/** Maximum length of an error text, because an error of ClickHouse can contain a whole statement. */
const MAX_PROBLEM_CHARACTERS = 2_000;
/** Maximum wait for the projector, which is always some seconds behind the log. */
const CATCH_UP_LIMIT_MS = 10 * 60_000;

export interface ErasureRuns {
  notify(): void;
  close(): Promise<void>;
}

/**
 * Runs all unfinished erasures in two steps. The first step hides rows, and the second step removes the rows from disk. Steps
 * of different erasures can run at the same time.
 */
export function runErasures(deps: ErasureRunDeps): ErasureRuns {
  const drops = runSteps(
    deps,
    ({ hiddenAt }) => hiddenAt !== null,
    async (run) => {
      // Runs the first step of the erasure again if rows were added after the first step.
      if (!(await run.drop())) hides.notify();
    },
  );
  const hides = runSteps(
    deps,
    ({ hiddenAt }) => hiddenAt === null,
    async (run, parts) => {
      await run.hide(parts);
      drops.notify();
    },
  );
  return {
    notify: () => hides.notify(),
    close: async () => void (await Promise.all([hides.close(), drops.close()])),
  };
}

function runSteps(
  deps: ErasureRunDeps,
  isWanted: (erasure: Erasure) => boolean,
  step: (run: Run, parts: MergedParts) => Promise<void>,
): ErasureRuns {
  const { directory, clock, logger } = deps;
  const stopping = new AbortController();
  const { signal } = stopping;
  const doorbell = new Notifier();
  const backoff = new Backoff();
  let isNotified = true;
  let delayed = new Map<string, Run>();
  const isDue = ({ state, requestedAt }: Erasure, isOwn: boolean): boolean =>
    (state === 'queued' || state === 'running') && (isOwn || clock.now() - requestedAt > TAKEOVER_AFTER_MS);
  const runAll = async (dueErasures: readonly Erasure[]): Promise<Map<string, Run>> => {
    const parts = new MergedParts();
    const delayedRuns = new Map<string, Run>();
    for (const { id } of dueErasures) {
      const run = delayed.get(id) ?? new Run(deps, id, signal);
      if (!(await run.runStep(() => step(run, parts)))) delayedRuns.set(id, run);
    }
    return delayedRuns;
  };
  const running = (async () => {
    while (!signal.aborted) {
      const isOwn = isNotified;
      isNotified = false;
      const dueErasures = [...directory.current.erasures.values()]
        .filter((erasure) => isDue(erasure, isOwn || delayed.has(erasure.id)) && isWanted(erasure))
        .sort((a, b) => a.requestedAt - b.requestedAt);
      delayed = await runAll(dueErasures);
      if (delayed.size === 0) backoff.reset();
      if (!signal.aborted) await doorbell.wait(delayed.size === 0 ? POLL_INTERVAL_MS : backoff.next());
    }
  })().catch((error: unknown) => logger.error('erasures_failed', error));
  return {
    notify: () => {
      isNotified = true;
      doorbell.notify();
    },
    close: async () => {
      stopping.abort();
      doorbell.notify();
      await settledSoon(running);
    },
  };
}

/**
 * Caches the merged parts of one erasure request. Without the cache, a request with 25 parts would merge all parts 25 times,
 * which takes seconds.
 */
class MergedParts {
  #requestId = '';
  #erased = new ErasedData();
  #added = new WeakSet<Erasure>();

  of(requestId: string, all: Iterable<Erasure>): ErasedData {
    if (requestId !== this.#requestId) {
      this.#requestId = requestId;
      this.#erased = new ErasedData();
      this.#added = new WeakSet();
    }
    for (const one of all) {
      if (requestIdOf(one) !== requestId || this.#added.has(one)) continue;
      this.#erased.add(one);
      this.#added.add(one);
    }
    return this.#erased;
  }
}

type ErasureUpdate = Partial<
  Pick<
    Erasure,
    'state' | 'problem' | 'found' | 'reports' | 'hiddenAt' | 'goneAt' | 'logExpiresAt' | 'exports'
  >
>;

class Run {
  readonly #deps: ErasureRunDeps;
  readonly #id: string;
  readonly #signal: AbortSignal;
  #found: ErasureFound = ZERO_COUNTS;
  readonly #files = new Set<string>();

  constructor(deps: ErasureRunDeps, id: string, signal: AbortSignal) {
    this.#deps = deps;
    this.#id = id;
    this.#signal = signal;
  }

  /** Runs a step of the erasure. Returns false if the step must run again, because ClickHouse or the log is unavailable. */
  async runStep(step: () => Promise<void>): Promise<boolean> {
    const { logger, store } = this.#deps;
    try {
      await step();
      return true;
    } catch (error) {
      if (this.#signal.aborted) return true;
      const isDelayed = error instanceof Unavailable;
      logger.error(isDelayed ? 'erasure_delayed' : 'erasure_failed', error, { id: this.#id });
      const failure = {
        problem: messageOf(error).slice(0, MAX_PROBLEM_CHARACTERS),
        ...(isDelayed ? {} : { state: 'failed' as const }),
      };
      const isUpdated = await this.#update(failure).then(
        () => true,
        () => false,
      );
      if (isDelayed || !isUpdated) return false;
      await restoreSettings(store).catch(() => undefined);
      return true;
    }
  }

  async hide(parts: MergedParts): Promise<void> {
    const { deadLetters, clock, directory, store } = this.#deps;
    const { erasures, erased } = directory.current;
    const erasure = this.#erasure();
    await requireAllReplicas(store, ERASED_TABLES);
    // The log must contain this state before the first deletion. Until then, ingest relies on equal rows on all nodes.
    await this.#update({ state: 'running' });
    const scopes = scopesOf(erasure);
    // Does not delete the erased reports and events yet. They are needed to find links that the projector inserts later.
    for (const scope of scopes) await this.#eraseScope(scope);
    await this.#waitForProjections();
    if (erasure.sessions !== null) {
      const { changes } = erased;
      for (const scope of scopes) await this.#eraseScope(scope);
      // If the erasure has found more reports, waits until the projector has inserted the links of these reports.
      if (erased.changes !== changes) await this.#waitForProjections();
    }
    for (const [part, scope] of scopes.entries()) await this.#eraseScope(scope, part);
    this.#found = { ...this.#found, attachments: await this.#removeUnnamed(erasure) };
    const discarded = await deadLetters.discardHidden(parts.of(requestIdOf(erasure), erasures.values()));
    this.#found = sumCounts(this.#found, { ...ZERO_COUNTS, deadLetters: discarded });
    await this.#update({ found: this.#found, problem: null, hiddenAt: clock.now() });
  }

  /** Removes hidden rows from disk. Returns false if a late insert of a projector has added erased rows again. */
  async drop(): Promise<boolean> {
    const { store, directory, clock, logger } = this.#deps;
    const erasure = this.#erasure();
    await requireAllReplicas(store, ERASED_TABLES);
    await dropFromDisk(store, erasure.tenantId, this.#signal);
    // Waits again, because the inserts of a batch that the projector read before the erasure can fail for a long time.
    await this.#waitForProjections();
    await this.#waitForLateInserts(erasure);
    for (const scope of scopesOf(erasure)) {
      const { events, sessions, reports, links } = await countRows(store, scope);
      if (events + sessions + reports + links === 0) continue;
      await this.#update({ hiddenAt: null, exports: [] });
      return false;
    }
    // Searches for files again, because a game can use an upload address for an hour after the game has requested the address.
    const lateAttachments = await this.#removeUnnamed(
      erasure,
      (erasure.hiddenAt ?? clock.now()) - UPLOAD_ADDRESS_LIFETIME_MS,
    );
    const found = { ...erasure.found, attachments: erasure.found.attachments + lateAttachments };
    const problem = erasure.player === null ? null : await this.#deps.players.unresolved(erasure);
    const state = problem === null ? 'done' : 'failed';
    await this.#update({ state, found, problem, goneAt: clock.now() });
    if (problem === null) logger.info('erasure_done', { id: this.#id });
    else logger.warn('erasure_incomplete', { id: this.#id, problem });
    const isLast = ![...directory.current.erasures.values()].some(({ state }) => state === 'running');
    if (isLast) await restoreSettings(store);
    return true;
  }

  /** Waits until the projector has caught up, because it can still insert batches that it read before the erasure. */
  async #waitForProjections(): Promise<void> {
    await this.#update({ problem: 'waiting until the projector has caught up with the log' });
    for (const projection of this.#deps.projections)
      await projection.caughtUp('all', CATCH_UP_LIMIT_MS, this.#signal);
  }

  /** Waits for inserts whose answers were lost, because such an insert can take effect after its retry has succeeded. */
  async #waitForLateInserts({ hiddenAt }: Erasure): Promise<void> {
    const { store, clock } = this.#deps;
    const sinceHiddenMs = Math.max(0, clock.now() - (hiddenAt ?? 0));
    const waitMs = store.insertsEndWithinMs - sinceHiddenMs;
    if (waitMs <= 0) return;
    await this.#update({ problem: 'waiting until late inserts can no longer add rows' });
    await pause(waitMs, this.#signal);
    this.#signal.throwIfAborted();
  }

  /** Records the ids and counts of the erasure, and then erases rows. Without `part`, erases only rows of `EARLY_TABLES`. */
  async #eraseScope(scope: ErasureScope, part?: number): Promise<void> {
    const { store, uploads } = this.#deps;
    const rows = await countRows(store, scope);
    const { reports, files } = await reportsIn(store, scope);
    const attachments = await this.#count(files);
    const counts = { ...(part === undefined ? earlyCounts(rows) : rows), attachments: 0 };
    const found = { ...sumCounts(this.#found, counts), attachments };
    if (Object.values(found).some((n) => n > 0) || reports.length > 0)
      await this.#update({ found, reports: await this.#splitReports(reports) });
    if (part !== undefined) await recordErasedEvents(store, this.#erasure(), scope, part);
    await removeFiles(uploads, files);
    await hideRows(store, scope, part === undefined ? EARLY_TABLES : ERASED_TABLES, this.#signal);
    this.#found = found;
  }

  async #splitReports(reports: readonly IdsOfProject[]): Promise<readonly IdsOfProject[]> {
    const { directory, clock } = this.#deps;
    const erasure = this.#erasure();
    const { erased } = directory.current;
    const isNew = (projectId: string) => (id: string) => !erased.hasReport(erasure.tenantId, projectId, id);
    const more = reports
      .map(({ projectId, ids }) => ({ projectId, ids: ids.filter(isNew(projectId)) }))
      .filter(({ ids }) => ids.length > 0);
    const existingCount = countOf(erasure.sessions ?? []) + countOf(erasure.reports);
    if (existingCount + countOf(more) <= MAX_IDS_PER_RECORD) return more;
    const now = clock.now();
    for (const part of splitIntoParts(more, MAX_IDS_PER_RECORD)) {
      const ended = {
        state: 'done',
        problem: null,
        found: ZERO_COUNTS,
        hiddenAt: now,
        goneAt: now,
      } as const;
      const id = randomUUID();
      const entity = { ...erasure, ...ended, id, partOf: requestIdOf(erasure), sessions: [], reports: part };
      await directory.change('erasure', id, () => ({ entity, answer: undefined }));
    }
    return [];
  }

  async #removeUnnamed(erasure: Erasure, sinceMs?: number): Promise<number> {
    const { uploads, directory, clock } = this.#deps;
    const { tenantId, projectId } = erasure;
    const { erased, projects: all } = directory.current;
    const isOwn = ({ id, tenantId: owner }: Project): boolean =>
      projectId === null ? owner === tenantId : id === projectId;
    const projects = new Map([...all].filter(([, project]) => isOwn(project)));
    const search = { erased, projects, nowMs: clock.now(), ...(sinceMs !== undefined && { sinceMs }) };
    const unnamed = await unnamedFiles(uploads, erasure, search);
    const attachments = await this.#count(unnamed);
    await removeFiles(uploads, unnamed);
    return attachments;
  }

  async #count(files: readonly UploadKey[]): Promise<number> {
    for (const key of await existingFiles(this.#deps.uploads, files)) this.#files.add(storageKey(key));
    return this.#files.size;
  }

  #erasure(): Erasure {
    const erasure = this.#deps.directory.current.erasures.get(this.#id);
    if (erasure === undefined) throw new Error(`erasure ${this.#id} is unknown`);
    return erasure;
  }

  async #update(progress: ErasureUpdate): Promise<void> {
    await this.#deps.directory.change('erasure', this.#id, (known) => {
      if (known === undefined || known.state === 'done') return { answer: undefined };
      const found = maxCounts(known.found, progress.found ?? ZERO_COUNTS);
      const reports = merged(known.reports, progress.reports ?? []);
      const entity: Erasure = { ...known, ...progress, found, reports };
      return JSON.stringify(entity) === JSON.stringify(known)
        ? { answer: undefined }
        : { entity, answer: undefined };
    });
  }
}

function merged(known: readonly IdsOfProject[], more: readonly IdsOfProject[]): IdsOfProject[] {
  const byProject = Map.groupBy([...known, ...more], ({ projectId }) => projectId);
  // Keeps fields that only a newer version of Questlog defines.
  return [...byProject].map(([projectId, of]) => ({
    ...of[0],
    projectId,
    ids: [...new Set(of.flatMap(({ ids }) => ids))].sort(),
  }));
}
