/** Finds and removes the uploaded files of erased sessions, projects, and tenants. */

import { dayOf, type UploadKey } from '@questlog/runtime/uploads/core/uploadKey';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import type { ErasedData } from '@questlog/schemas/erased';
import type { Erasure, Project } from '@questlog/schemas/topics/directoryEntry';
import { millisOf } from '@questlog/schemas/uuid';

const DAY_MS = 24 * 60 * 60 * 1000;
/** Maximum number of days that an uploaded file can exist if it belongs to no report. */
const UNNAMED_DAYS = 3;

/** Returns the files that exist. Checks one file at a time, because the number of open files is limited. */
export async function existingFiles(
  uploads: UploadStore | undefined,
  keys: readonly UploadKey[],
): Promise<UploadKey[]> {
  const existing: UploadKey[] = [];
  for (const key of keys) if ((await uploads?.find(key)) !== undefined) existing.push(key);
  return existing;
}

export async function removeFiles(
  uploads: UploadStore | undefined,
  keys: readonly UploadKey[],
): Promise<void> {
  for (const key of keys) await uploads?.remove(key);
}

/**
 * Finds erased files that belong to no report.
 * - If a project or tenant is erased: all files from before the erasure request.
 * - If sessions are erased: the files of these sessions, and all files without a description, which can belong to any session.
 *   Searches only recent files, because older files were already removed.
 */
export async function unnamedFiles(
  uploads: UploadStore | undefined,
  erasure: Erasure,
  { erased, projects, nowMs, sinceMs }: UnnamedFileSearch,
): Promise<UploadKey[]> {
  if (uploads === undefined) return [];
  const files: UploadKey[] = [];
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
      if (isErased) files.push(key);
    }
  }
  return files;
}

interface UnnamedFileSearch {
  readonly erased: ErasedData;
  readonly projects: ProjectsById;
  readonly nowMs: number;
  readonly sinceMs?: number;
}

type ProjectsById = ReadonlyMap<string, Pick<Project, 'createdAt'>>;
