/** Handles POST /v1/ingest/uploads and GET /v1/uploads/{id}. Checks that all files of a report exist. */
import { randomBytes } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import { storageKey } from '@questlog/runtime/uploads/core/uploadKey';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import {
  UPLOAD_ADDRESS_LIFETIME_MS,
  type UploadInput,
  type UploadOutput,
} from '@questlog/schemas/http/upload';
import { canonicalUuid, eventId, isUuidV7, millisOf } from '@questlog/schemas/uuid';
import type { SessionCache } from '../entityCache/sessionCache.ts';
import type { ProjectIds } from '../limits/fairSharing.ts';
import { FairQueue } from '../limits/fairSharing.ts';
import { credentialOf } from '../tokens/credential.ts';
import { describedUpload, maxBytesOf } from './core/uploadRequest.ts';

/** Creates an upload and its address. @throws Rejected if a field is invalid, or if the session cannot exist */
export async function createUpload(
  { store, clock, sessions }: { store: UploadStore; clock: Clock; sessions: Pick<SessionCache, 'canExist'> },
  principal: Principal,
  input: UploadInput,
  baseUrl: string,
): Promise<UploadOutput> {
  const described = describedUpload(input, store.isSizeNeeded);
  const { sessionId } = described;
  if (sessionId !== null && !sessions.canExist(principal.tenant.id, principal.project.id, sessionId))
    throw new Rejected('unknown_session', `session ${sessionId} does not exist in this project`);
  const nowMs = clock.now();
  const key = { projectId: principal.project.id, uploadId: eventId(nowMs, 0, randomBytes(8)) };
  const expiresAtMs = nowMs + UPLOAD_ADDRESS_LIFETIME_MS;
  const expiresAt = new Date(expiresAtMs).toISOString();
  await store.describe(key, { ...described, expiresAt });
  const { mimeType, sizeBytes, attachmentType } = described;
  const target = {
    ...{ key, mimeType, expiresAtMs, tokenId: credentialOf(principal) },
    maxBytes: sizeBytes ?? maxBytesOf(attachmentType),
    isExact: sizeBytes !== null,
  };
  return {
    uploadId: key.uploadId,
    storageKey: storageKey(key),
    uploadUrl: await store.address(target, baseUrl),
    publicUrl: null,
    expiresAt,
    requiredHeaders: { 'Content-Type': mimeType },
  };
}

const MAX_AGE_OF_NAMED_FILE_MS = 24 * 60 * 60 * 1000;

export interface NamedAttachment {
  readonly uploadId: string;
  readonly sizeBytes?: number | undefined;
}

export type AttachmentState =
  | { readonly state: 'stored'; readonly sizeBytes: number }
  /** Result for a file that does not exist, is older than a day, belongs to another project, or has an unexpected size. */
  | { readonly state: 'missing' };

/** Maximum number of concurrent file checks. Each check sends one or two requests to the upload store. */
const MAX_CONCURRENT_CHECKS = 16;

/**
 * Checks whether the files of a report exist. If many checks wait, the tenants take turns. @throws Unavailable if too many
 * checks are waiting
 */
export type CheckAttachments = (
  of: ProjectIds,
  named: readonly NamedAttachment[],
) => Promise<readonly AttachmentState[]>;

export function openAttachmentChecks(deps: Parameters<typeof checkAttachment>[0]): CheckAttachments {
  const turns = new FairQueue('reports with files', MAX_CONCURRENT_CHECKS);
  return async ({ tenantId, projectId }, named) => {
    const states: AttachmentState[] = [];
    for (const one of named)
      states.push(await turns.run(tenantId, () => checkAttachment(deps, projectId, one)));
    return states;
  };
}

/** Checks one file of a report. A file older than a day counts as missing, because a cleanup may remove it. */
export async function checkAttachment(
  { store, clock }: { store: UploadStore | undefined; clock: Clock },
  projectId: string,
  { uploadId, sizeBytes }: NamedAttachment,
): Promise<AttachmentState> {
  const id = canonicalUuid(uploadId) ?? '';
  if (store === undefined || !isUuidV7(id) || clock.now() - millisOf(id) > MAX_AGE_OF_NAMED_FILE_MS) {
    return { state: 'missing' };
  }
  const storedBytes = (await store.find({ projectId, uploadId: id }))?.sizeBytes;
  if (storedBytes === undefined || (sizeBytes !== undefined && sizeBytes !== storedBytes))
    return { state: 'missing' };
  return { state: 'stored', sizeBytes: storedBytes };
}
