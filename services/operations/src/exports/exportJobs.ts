/** Creates, lists, and deletes the exports that operations writes to an S3 bucket. */
import { randomUUID } from 'node:crypto';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { choiceFilter } from '@questlog/runtime/http/core/listFilters';
import { pathUuid, Rejected } from '@questlog/runtime/http/rejected';
import { firstQuery, type Handlers } from '@questlog/runtime/http/routes';
import type { Clock } from '@questlog/runtime/process/clock';
import type { ExportOutput } from '@questlog/schemas/http/export';
import type { OPERATORS } from '@questlog/schemas/http/operations/operators';
import type { AbandonedExport, Erasure, Export } from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { notCompared } from './erasedExports.ts';

interface ExportJobDeps {
  readonly directory: Pick<DirectoryHandle, 'current' | 'change' | 'caughtUp'>;
  readonly clock: Clock;
}

export function exportJobs(
  deps: ExportJobDeps,
): Handlers<Pick<typeof OPERATORS, 'listExports' | 'createExport' | 'getExport' | 'deleteExport'>> {
  const { directory, clock } = deps;
  const { projects, exports } = directory.current;
  return {
    listExports: () => [...exports.values()].map(toOutput),
    getExport: (_, { params }) => toOutput(existing(params.id, exports.get(pathUuid(params.id)))),
    createExport: async (_, { body }) => {
      const { kind, format = 'parquet', from = null, to = null, everyHours = null } = body;
      const projectId = canonicalUuid(body.projectId) ?? '';
      await directory.caughtUp();
      if (!projects.has(projectId)) throw new Rejected('not_found', `there is no project ${body.projectId}`);
      const parent = body.output.endsWith('/') ? body.output.slice(0, -1) : body.output;
      const path = `${parent}/${kind}/${projectId}`;
      const conflictWith = (ownId?: string): Rejected | undefined => {
        const first = [...exports.values()].find((other) => other.path === path);
        if (first === undefined || first.id === ownId) return undefined;
        return new Rejected('conflict', `the export ${first.id} has the folder ${path}`);
      };
      const conflict = conflictWith();
      if (conflict !== undefined) throw conflict;
      const now = clock.now();
      const entity: Export = {
        ...{ id: randomUUID(), projectId, kind, format, from, to, path, everyHours, createdAt: now },
        ...{ state: 'queued', problem: null, runId: null, dueAt: now, finishedAt: null },
        ...{ files: 0, rows: 0, bytes: 0 },
      };
      await directory.change('export', entity.id, () => ({ entity, answer: undefined }));
      // Another process can have created an export with the same folder at the same time. The earlier record stays.
      const laterConflict = conflictWith(entity.id);
      if (laterConflict === undefined) return toOutput(entity);
      await directory.change('export', entity.id, () => ({ entity: null, answer: undefined }));
      throw laterConflict;
    },
    deleteExport: (ctx, { params }) => {
      const isForced = choiceFilter('force', firstQuery(ctx)('force'), ['true', 'false']) === 'true';
      return deleteExport(deps, params.id, isForced);
    },
  };
}

/** Deletes an export. Adds the export to the erasures whose rows its files can still contain. */
async function deleteExport(
  { directory, clock }: ExportJobDeps,
  id: string,
  isForced: boolean,
): Promise<void> {
  const abandon = async (
    { id: exportId, path, files, rows }: Export,
    erasureIds: string[],
  ): Promise<void> => {
    const abandoned: AbandonedExport = { exportId, path, files, rows, abandonedAt: clock.now() };
    for (const erasureId of erasureIds)
      await directory.change('erasure', erasureId, (known) => {
        if (known === undefined) return { answer: undefined };
        const abandonedExports = [...(known.abandonedExports ?? []), abandoned];
        return { entity: { ...known, abandonedExports }, answer: undefined };
      });
  };
  for (;;) {
    const { job, erasureIds } = await directory.change('export', pathUuid(id), (known) => {
      const job = existing(id, known);
      const [erasure] = notCompared(directory.current, job);
      if (erasure !== undefined && !isForced) throw notYetCompared(erasure);
      const answer = { job, erasureIds: notAbandoned(directory.current, job) };
      return answer.erasureIds.length === 0 ? { entity: null, answer } : { answer };
    });
    const isDeleted = erasureIds.length === 0;
    // Another process can have requested an erasure while this process deleted the export.
    await abandon(job, isDeleted ? notAbandoned(directory.current, job) : erasureIds);
    if (isDeleted) return;
  }
}

/** Returns the erasures whose rows the files of the export can still contain, and which do not list the export. */
function notAbandoned(directory: DirectoryHandle['current'], job: Export): string[] {
  return notCompared(directory, job).flatMap(({ id, abandonedExports = [] }) =>
    abandonedExports.some(({ exportId }) => exportId === job.id) ? [] : [id],
  );
}

function notYetCompared({ id, hiddenAt }: Erasure): Rejected {
  const until =
    hiddenAt === null
      ? 'after the erasure has hidden its rows and the export has run'
      : 'after the next run of the export';
  return new Rejected(
    'conflict',
    `the files of the export can contain rows of the erasure ${id}; retry ${until}. With force=true, the export is deleted, and its files stay unchanged`,
  );
}

function existing(id: string, job: Export | undefined): Export {
  if (job === undefined) throw new Rejected('not_found', `there is no export ${id}`);
  return job;
}

function toOutput({ runId: _, dueAt, finishedAt, createdAt, progress, ...job }: Export): ExportOutput {
  return {
    ...job,
    progress: progress ?? null,
    nextRunAt: timeOf(dueAt),
    finishedAt: timeOf(finishedAt),
    createdAt: new Date(createdAt).toISOString(),
  };
}

function timeOf(millis: number | null): string | null {
  return millis === null ? null : new Date(millis).toISOString();
}
