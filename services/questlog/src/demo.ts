/** Creates the demo tenant, project, token, and session at the first start. */
import { randomUUID } from 'node:crypto';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Clock } from '@questlog/runtime/process/clock';
import { SCOPES } from '@questlog/schemas/topics/directoryEntry';
import type { Credentials } from './credentials.ts';

/** Creates the demo token, project, and tenant. Does nothing if the tenant exists, so that a revoked token is not recreated. */
export async function ensureDemo(
  directory: DirectoryHandle,
  { tenantId, projectId, token }: Credentials,
  clock: Clock,
): Promise<boolean> {
  if (directory.current.tenants.has(tenantId)) return false;
  const createdAt = clock.now();
  const id = randomUUID();
  await directory.put('token', id, {
    id,
    projectId,
    sha256: sha256Hex(token),
    scopes: SCOPES,
    expiresAt: null,
    createdAt,
  });
  await directory.put('project', projectId, {
    id: projectId,
    tenantId,
    name: 'Demo game',
    revision: null,
    reportWindow: null,
    createdAt,
  });
  await directory.put('tenant', tenantId, {
    id: tenantId,
    name: 'Demo studio',
    monthlySoftQuota: null,
    spread: 1,
    createdAt,
  });
  return true;
}

/** Registers the demo session over HTTP. If the log is unavailable, the next start registers the session. */
export async function ensureDemoSession({ baseUrl, token, sessionId }: Credentials): Promise<void> {
  const response = await fetch(`${baseUrl}/v1/ingest/sessions`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ id: sessionId }),
  });
  await response.arrayBuffer();
  if (!response.ok && response.status !== 401 && response.status !== 503)
    throw new Error(`the demo session was answered ${response.status}`);
}
