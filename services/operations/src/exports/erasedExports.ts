/** Finds the exports whose files can contain the rows of an erasure. */
import type { Directory } from '@questlog/runtime/directory/directory';
import type { ErasureOutput } from '@questlog/schemas/http/erasure';
import type { AbandonedExport, ErasedExport, Erasure, Export } from '@questlog/schemas/topics/directoryEntry';

type ExportedData = Pick<Directory, 'exports' | 'erasures' | 'projects'>;

type ErasedScope = Pick<
  Erasure,
  'tenantId' | 'projectId' | 'state' | 'hiddenAt' | 'exports' | 'abandonedExports'
>;

/** Maximum difference between the clocks of two processes. A larger value only causes more comparisons. */
const MAX_CLOCK_DIFFERENCE_MS = 3_600_000;

/** True if an erasure of the project is requested, and has not hidden all its rows yet. */
export function hasUnhiddenRows(
  directory: Pick<Directory, 'erasures' | 'projects'>,
  projectId: string,
): boolean {
  return [...directory.erasures.values()].some(
    (erasure) =>
      erasure.hiddenAt === null && erasure.state !== 'failed' && covers(directory, erasure, projectId),
  );
}

function covers(
  { projects }: Pick<Directory, 'projects'>,
  erasure: Pick<Erasure, 'tenantId' | 'projectId'>,
  projectId: string,
): boolean {
  if (erasure.projectId !== null) return erasure.projectId === projectId;
  return projects.get(projectId)?.tenantId === erasure.tenantId;
}

/**
 * Returns true if the erasure covers the project of the export, and the export can have files from before the erasure. Returns
 * false if the erasure failed before it hid rows, because such an erasure never continues.
 */
function isErasedBy(
  directory: Pick<Directory, 'projects'>,
  erasure: ErasedScope,
  { projectId, createdAt }: Export,
): boolean {
  const { state, hiddenAt } = erasure;
  if (hiddenAt === null ? state === 'failed' : hiddenAt <= createdAt - MAX_CLOCK_DIFFERENCE_MS) return false;
  return covers(directory, erasure, projectId);
}

/**
 * Returns the erasures whose rows the files of the export can still contain, including erasures that have not hidden their rows
 * yet.
 */
export function notCompared(directory: ExportedData, job: Export): Erasure[] {
  return [...directory.erasures.values()].filter(
    (erasure) =>
      isErasedBy(directory, erasure, job) && !erasure.exports?.some(({ exportId }) => exportId === job.id),
  );
}

/**
 * Returns the erasures of `notCompared` that have hidden their rows. A run of the export can remove the rows of these erasures.
 */
export function removable(directory: ExportedData, job: Export): Erasure[] {
  return notCompared(directory, job).filter(({ hiddenAt }) => hiddenAt !== null);
}

/** Returns the exports of the receipt: compared exports, exports that can still contain erased rows, and abandoned exports. */
export function erasedExports(
  directory: ExportedData,
  erasure: ErasedScope,
): ErasureOutput['receipt']['exports'] {
  const { exports: compared = [], abandonedExports = [] } = erasure;
  const isCompared = (id: string) => compared.some(({ exportId }) => exportId === id);
  const waiting = [...directory.exports.values()].filter(
    (job) => isErasedBy(directory, erasure, job) && !isCompared(job.id),
  );
  // After an interrupted forced deletion, an abandoned export still exists, and its next run compares the files.
  const abandoned = abandonedExports.filter(
    ({ exportId }) => !directory.exports.has(exportId) && !isCompared(exportId),
  );
  return [
    ...compared.map(({ exportId: id, comparedAt, rewritten, planId, names }) => ({
      ...{ id, path: directory.exports.get(id)?.path ?? null, problem: null },
      ...{ comparedAt: new Date(comparedAt).toISOString(), rewritten, planId, names: [...names] },
    })),
    ...waiting.map(({ id, path, problem }) => ({
      ...{ id, path, problem: problem ?? 'the next run of the export has not compared the files yet' },
      ...NOT_COMPARED,
    })),
    ...abandoned.map(({ exportId: id, path, files, rows, abandonedAt }) => ({
      ...{ id, path, ...NOT_COMPARED },
      problem: `the export was deleted at ${new Date(abandonedAt).toISOString()}; ${files} files with ${rows} rows of the last complete run, and possibly files of an unfinished run, stay in the folder`,
    })),
  ];
}

const NOT_COMPARED = { comparedAt: null, rewritten: 0, planId: null, names: [] };

/** Merges the comparisons of the parts of an erasure. Omits an export that was not compared for every part. */
export function mergeErasedExports(parts: readonly Pick<Erasure, 'exports'>[]): ErasedExport[] {
  const byExport = Map.groupBy(
    parts.flatMap(({ exports = [] }) => exports),
    ({ exportId }) => exportId,
  );
  return [...byExport.values()].flatMap((compared) => {
    const all = compared.toSorted((a, b) => a.comparedAt - b.comparedAt);
    const last = all.at(-1);
    if (last === undefined || all.length < parts.length) return [];
    const runs = [...new Map(all.map((one) => [one.planId, one])).values()];
    return {
      ...last,
      rewritten: runs.reduce((sum, { rewritten }) => sum + rewritten, 0),
      names: runs.flatMap(({ names }) => names),
    };
  });
}

/** Merges the abandoned exports of the parts of an erasure. */
export function mergeAbandonedExports(
  parts: readonly Pick<Erasure, 'abandonedExports'>[],
): AbandonedExport[] {
  const all = parts.flatMap(({ abandonedExports = [] }) => abandonedExports);
  return [...new Map(all.map((one) => [one.exportId, one])).values()];
}
