/**
 * Runs the exports of the directory, one at a time in each process. A process takes over an export if the directory's record of
 * the export has not changed for `leaseMs`. The process that runs the export writes this record several times during `leaseMs`.
 * Before each change in the bucket, a process checks that no other process has taken over the export.
 */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { ExportFolder } from '@questlog/runtime/exports/exportFolder';
import { type ExportResult, type ExportSource, runExport, sumOf } from '@questlog/runtime/exports/runExport';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import { Fenced, messageOf } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { runPeriodically } from '@questlog/runtime/process/waiting';
import type { Erasure, Export, ExportProgress } from '@questlog/schemas/topics/directoryEntry';
import { hasUnhiddenRows, removable } from './erasedExports.ts';
import { planExport } from './planExport.ts';
import { readChunk } from './readChunk.ts';

export interface ExportRunDeps {
  readonly directory: Pick<DirectoryHandle, 'current' | 'change'>;
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  /** @param beforeChange called before each change of an object in the bucket. If it throws, the object does not change. */
  openFolder(path: string, beforeChange: () => Promise<void>): Promise<ExportFolder>;
  /** Time without a change of the record after which another process takes over a running export. */
  readonly leaseMs?: number;
  readonly pollMs?: number;
}

const LEASE_MS = 30_000;
const POLL_MS = 2_000;
/** Time until the next run after an error that a later run can avoid, such as an unavailable bucket. */
const RETRY_MS = 5 * 60_000;
const HOUR_MS = 3_600_000;
/** Maximum length of an error text, because an error of ClickHouse can contain a whole statement. */
const MAX_PROBLEM_CHARACTERS = 2_000;
/** Maximum number of names per export in the record of an erasure, because the record must stay below 1 MiB. */
const MAX_NAMES = 20;
/** Maximum number of ids in the record of an erasure with names of files. An id takes 37 bytes. */
const MAX_IDS_WITH_NAMES = 20_000;

/** Returns a function that stops the runs. Another process, or this process after its next start, continues a stopped run. */
export function runExports(deps: ExportRunDeps): () => Promise<void> {
  const { directory, logger, leaseMs = LEASE_MS, pollMs = POLL_MS } = deps;
  const seen = new Map<string, { readonly job: Export; readonly atMs: number }>();
  /** Returns true if a process has stopped while it ran the export. */
  const isAbandoned = (job: Export): boolean => {
    const { job: before, atMs } = seen.get(job.id) ?? {};
    if (before === job && atMs !== undefined) return performance.now() - atMs > leaseMs;
    seen.set(job.id, { job, atMs: performance.now() });
    return false;
  };
  const canRun = (job: Export): boolean => (job.state === 'running' ? isAbandoned(job) : isDue(deps, job));
  return runPeriodically(
    async (signal) => {
      for (const { id } of [...directory.current.exports.values()].filter(canRun)) {
        if (signal.aborted) return;
        await new Run(deps, id, leaseMs).run(canRun, signal);
      }
    },
    { everyMs: pollMs },
    (error) => logger.error('exports_failed', error),
  );
}

function isDue({ directory, clock }: ExportRunDeps, job: Export): boolean {
  if (job.dueAt !== null && job.dueAt <= clock.now()) return true;
  return job.problem === null && removable(directory.current, job).length > 0;
}

class Run {
  readonly #deps: ExportRunDeps;
  readonly #jobId: string;
  readonly #runId = randomUUID();
  readonly #leaseMs: number;
  #progress: ExportProgress | null = null;

  constructor(deps: ExportRunDeps, jobId: string, leaseMs: number) {
    this.#deps = deps;
    this.#jobId = jobId;
    this.#leaseMs = leaseMs;
  }

  async run(canRun: (job: Export) => boolean, stopped: AbortSignal): Promise<void> {
    const { directory, logger, clock } = this.#deps;
    const job = await directory.change('export', this.#jobId, (known) => {
      if (known === undefined || !canRun(known)) return { answer: undefined };
      const entity: Export = { ...known, state: 'running', runId: this.#runId };
      return { entity, answer: entity };
    });
    if (job === undefined) return;
    const fenced = new AbortController();
    const stopRenewing = runPeriodically(
      () => this.#renew(),
      { firstMs: this.#leaseMs / 4, everyMs: this.#leaseMs / 4 },
      (error) => error instanceof Fenced && fenced.abort(error),
    );
    try {
      const result = await this.#export(job, AbortSignal.any([stopped, fenced.signal]));
      const rows = sumOf(result.files, (file) => file.rows);
      const bytes = sumOf(result.files, (file) => file.bytes);
      const end = {
        state: 'done',
        problem: null,
        finishedAt: clock.now(),
        dueAt: nextRun(job, clock.now()),
      } as const;
      await this.#update({ ...end, files: result.files.length, rows, bytes });
      logger.info('export_done', { id: job.id, files: result.written.length });
    } catch (error) {
      if (stopped.aborted) return await this.#update({ state: 'queued' });
      if (error instanceof Fenced || fenced.signal.aborted) return;
      const isFinal = error instanceof Rejected;
      logger.error('export_failed', error, { id: job.id });
      await this.#update({
        state: isFinal ? 'failed' : 'queued',
        problem: messageOf(error).slice(0, MAX_PROBLEM_CHARACTERS),
        dueAt: isFinal ? nextRun(job, clock.now()) : clock.now() + RETRY_MS,
      });
    } finally {
      await stopRenewing();
    }
  }

  async #export(job: Export, signal: AbortSignal): Promise<ExportResult> {
    const { directory, clock, openFolder } = this.#deps;
    const { projectId, kind, format, from, to, path } = job;
    const comparedAt = clock.now();
    const hidden = removable(directory.current, job);
    const folder = await openFolder(path, () => this.#renew());
    try {
      return await runExport({
        ...{ source: this.#source(projectId), folder, request: { projectId, kind, format, from, to } },
        // The first run also compares the files that a deleted export or `questlog export` has left in the folder.
        isRefresh: hidden.length > 0 || job.finishedAt === null,
        signal,
        onProgress: (rows, allRows) => {
          this.#progress = { rows, allRows };
        },
        onComplete: (result) => this.#recordErased(hidden, comparedAt, result),
      });
    } finally {
      await folder.close();
    }
  }

  /** Adds the comparison to the erasures whose rows were hidden before the comparison. */
  async #recordErased(
    hidden: readonly Erasure[],
    comparedAt: number,
    { planId, written }: ExportResult,
  ): Promise<void> {
    const rewritten = written.filter(({ generation = 1 }) => generation > 1);
    const names = rewritten.slice(0, MAX_NAMES).map(({ name }) => name);
    const entry = { exportId: this.#jobId, comparedAt, rewritten: rewritten.length, planId, names };
    for (const { id, hiddenAt } of hidden)
      await this.#deps.directory.change('erasure', id, (known) => {
        // The erasure has started again if the projector has inserted an erased row.
        if (known === undefined || known.hiddenAt !== hiddenAt) return { answer: undefined };
        const idCount = sumOf([...(known.sessions ?? []), ...known.reports], ({ ids }) => ids.length);
        const compared = idCount <= MAX_IDS_WITH_NAMES ? entry : { ...entry, names: [] };
        return { entity: { ...known, exports: [...(known.exports ?? []), compared] }, answer: undefined };
      });
  }

  #source(projectId: string): ExportSource {
    const { store, directory } = this.#deps;
    const project = directory.current.projects.get(projectId);
    if (project === undefined) throw new Rejected('not_found', `there is no project ${projectId}`);
    return {
      plan: (request, after) => planExport(store, project, request, after),
      read: (chunk, signal) =>
        readChunk(store, project, chunk, signal, () => hasUnhiddenRows(directory.current, projectId)),
    };
  }

  /**
   * Writes the record of the export with the progress, so that no other process takes over the export.
   * @throws Fenced if another process has taken over the export
   */
  async #renew(): Promise<void> {
    await this.#update({ progress: this.#progress });
  }

  async #update(changes: Partial<Export>): Promise<void> {
    await this.#deps.directory.change('export', this.#jobId, (known) => {
      if (known?.runId !== this.#runId) throw new Fenced(`another process runs the export ${this.#jobId}`);
      const entity: Export = { ...known, ...changes };
      const isRunning = entity.state === 'running';
      return { entity: isRunning ? entity : { ...entity, runId: null, progress: null }, answer: undefined };
    });
  }
}

/** Returns the next time of the schedule. A run outside the schedule does not move the schedule. */
function nextRun({ everyHours, dueAt }: Export, nowMs: number): number | null {
  if (everyHours === null) return null;
  const first = dueAt ?? nowMs;
  const missed = Math.max(0, Math.floor((nowMs - first) / (everyHours * HOUR_MS)) + 1);
  return first + missed * everyHours * HOUR_MS;
}
