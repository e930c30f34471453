/** The files among the uploads that an erasure covers. */
import type { ErasedData } from '@questlog/schemas/erased';
import type { Erasure, Project } from '@questlog/schemas/topics/directoryEntry';
import { millisOf } from '@questlog/schemas/uuid';
import { dayOf, type UploadKey } from '../uploads/core/uploadKey.ts';
import type { UploadStore } from '../uploads/uploadStore.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
/** Files that no report names are swept within a day and an hour. */
const UNNAMED_DAYS = 3;

/** Those that are there. One by one: a project may have more than a process may have open. */
export async function existingFiles(
  uploads: UploadStore | undefined,
  keys: readonly UploadKey[],
): Promise<UploadKey[]> {
  const existing: UploadKey[] = [];
  for (const key of keys) if ((await uploads?.find(key)) !== undefined) existing.push(key);
  return existing;
}

/** Also bytes without a description, which came when it was gone. */
export async function removeFiles(
  uploads: UploadStore | undefined,
  keys: readonly UploadKey[],
): Promise<void> {
  for (const key of keys) await uploads?.remove(key);
}

/**
 * Those that no row of a report names: of the sessions what no report has named yet, of the projects also what was named by
 * reports that are past their days. And bytes that came when their description was gone, which are nobody's: it is there
 * before an address is.
 * @param sinceMs when the first of them was asked for; undefined: of all days that may have some.
 */
export async function unnamedFiles(
  uploads: UploadStore | undefined,
  erasure: Erasure,
  { erased, projects, nowMs, sinceMs }: UnnamedFileSearch,
): Promise<UploadKey[]> {
  if (uploads === undefined) return [];
  const found: UploadKey[] = [];
  const createdTimes = [...projects.values()].map(({ createdAt }) => createdAt);
  const sessionsSinceMs = nowMs - (UNNAMED_DAYS - 1) * DAY_MS;
  const defaultSinceMs =
    erasure.sessions === null ? createdTimes.reduce((a, b) => Math.min(a, b), nowMs) : sessionsSinceMs;
  const fromMs = sinceMs ?? defaultSinceMs;
  for (let dayMs = nowMs + DAY_MS; dayOf(dayMs) >= dayOf(fromMs); dayMs -= DAY_MS) {
    for await (const key of uploads.list(dayOf(dayMs))) {
      if (!projects.has(key.projectId)) continue;
      const { tenantId, sessions, requestedAt } = erasure;
      const isBefore = millisOf(key.uploadId) < requestedAt;
      const description = sessions === null ? undefined : (await uploads.find(key))?.description;
      const sessionId = description?.sessionId ?? null;
      const isOfSession = sessionId !== null && erased.hasSession(tenantId, key.projectId, sessionId);
      const isErased = sessions === null ? isBefore : isOfSession || description === undefined;
      if (isErased) found.push(key);
    }
  }
  return found;
}

interface UnnamedFileSearch {
  readonly erased: ErasedData;
  readonly projects: ProjectsById;
  readonly nowMs: number;
  readonly sinceMs?: number;
}

type ProjectsById = ReadonlyMap<string, Pick<Project, 'createdAt'>>;
