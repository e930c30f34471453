/** Handles POST /admin/projects/{id}/test-event. The test event takes the same path as the events of games. */
import { createHash } from 'node:crypto';
import type { Directory, Principal } from '@questlog/runtime/directory/directory';
import { SCOPES } from '@questlog/schemas/topics/directoryEntry';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { canonicalUuid, uuidV8 } from '@questlog/schemas/uuid';
import { Rejected } from '../rejected.ts';
import { registerSession } from '../sessions/registerSession.ts';
import { type IngestDeps, ingest } from './ingestEvents.ts';

interface ProjectDeps {
  readonly directory: { readonly current: Directory };
  readonly defaultRevision: Revision;
}

/** Returns the created event as JSON. @throws Rejected if the project does not exist @throws Unavailable */
export async function sendTestEvent(
  deps: ProjectDeps & { readonly ingest: IngestDeps },
  projectId: string,
  requestId: string,
): Promise<object> {
  const principal = operatorPrincipal(deps, projectId);
  const session = Buffer.from(JSON.stringify({ id: testSession(principal.project.id) }));
  const { body: registered } = await registerSession(deps.ingest, principal, session);
  const event = {
    sessionId: registered.sessionId,
    eventType: 'questlog.test',
    payload: { sentBy: 'an operator' },
  };
  const { body } = await ingest(deps.ingest, {
    ...{ principal, requestId, idempotencyKey: undefined, isLenient: false, isStrict: true },
    body: Buffer.from(JSON.stringify(event)),
  });
  const [created] = JSON.parse(body.toString());
  return created;
}

/** Returns a caller identity with all scopes of the project. @throws Rejected if the project does not exist */
export function operatorPrincipal({ directory, defaultRevision }: ProjectDeps, projectId: string): Principal {
  const project = directory.current.projects.get(canonicalUuid(projectId) ?? '');
  const tenant = directory.current.tenants.get(project?.tenantId ?? '');
  if (project === undefined || tenant === undefined) {
    throw new Rejected('not_found', `there is no project ${projectId}`);
  }
  const revision = project.revision ?? defaultRevision;
  return { tenant, project, revision, scopes: SCOPES, tokenId: null };
}

/** Returns the session id for all test events of a project. In API revision A, every event must have a session. */
function testSession(projectId: string): string {
  return uuidV8(createHash('sha256').update(`questlog.test ${projectId}`).digest());
}
