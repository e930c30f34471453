/** POST /admin/projects/{id}/test-event: an event of that project, by the very way that a game's events take. */
import { createHash } from 'node:crypto';
import type { Directory, Principal } from '@questlog/runtime/directory/directory';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { canonicalUuid, uuidV8 } from '@questlog/schemas/uuid';
import { Rejected } from '../rejected.ts';
import { registerSession } from '../sessions/registerSession.ts';
import { type IngestDeps, ingest } from './ingestEvents.ts';

interface TestEventDeps {
  readonly directory: { readonly current: Directory };
  readonly ingest: IngestDeps;
  readonly defaultRevision: Revision;
}

/** @returns the created event, as a game is answered. @throws Rejected where there is no such project; Unavailable */
export async function sendTestEvent(
  deps: TestEventDeps,
  projectId: string,
  requestId: string,
): Promise<object> {
  const principal = principalOf(deps, projectId);
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

/** As if a token of the project had been sent. */
function principalOf({ directory, defaultRevision }: TestEventDeps, projectId: string): Principal {
  const project = directory.current.projects.get(canonicalUuid(projectId) ?? '');
  const tenant = directory.current.tenants.get(project?.tenantId ?? '');
  if (project === undefined || tenant === undefined) {
    throw new Rejected('not_found', `there is no project ${projectId}`);
  }
  return { tenant, project, revision: project.revision ?? defaultRevision, scopes: ['events:write'] };
}

/** Revision A asks for a session. It is one for ever, so that tests leave no trail of sessions behind. */
function testSession(projectId: string): string {
  return uuidV8(createHash('sha256').update(`questlog.test ${projectId}`).digest());
}
