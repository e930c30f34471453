/** POST /v1/ingest/sessions: registers a session once; the same again is answered, other content under its id is refused. */
import { randomBytes } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import type { SessionInput, SessionOutput } from '@questlog/schemas/http/session';
import { laneOfSession } from '@questlog/schemas/partition';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { canonicalUuid, eventId } from '@questlog/schemas/uuid';
import { timestampField } from '../core/fieldProblems.ts';
import { formatMicros } from '../core/occurredAt.ts';
import type { Sessions } from '../known/sessions.ts';
import { Rejected } from '../rejected.ts';

export async function registerSession(
  { sessions, clock }: { sessions: Sessions; clock: Clock },
  { tenant, project }: Principal,
  input: SessionInput,
): Promise<{ status: 200 | 201; body: SessionOutput }> {
  const givenId = canonicalUuid(input.id ?? '');
  const registeredAt = clock.now();
  const id = givenId ?? eventId(registeredAt, 0, randomBytes(8));
  const wanted: SessionRegistered = {
    tenantId: tenant.id,
    projectId: project.id,
    sessionId: id,
    buildId: canonicalUuid(input.buildId ?? '') ?? null,
    startedAt: input.startedAt === undefined ? null : timestampField('startedAt', input.startedAt),
    registeredAt,
    lane: laneOfSession(id, tenant.spread),
  };
  if (givenId !== undefined) {
    const known = (await sessions.find(tenant.id, project.id, [id])).get(id);
    if (known !== undefined) return { status: 200, body: sameOrConflict(known, wanted) };
  }
  const { winner, isOwn } = await sessions.register(wanted);
  return isOwn
    ? { status: 201, body: sessionOutput(wanted) }
    : { status: 200, body: sameOrConflict(winner, wanted) };
}

export function sessionOutput(session: SessionRegistered): SessionOutput {
  return {
    id: session.sessionId,
    buildId: session.buildId,
    startedAt: formatMicros(session.startedAt ?? BigInt(session.registeredAt) * 1000n),
  };
}

/** "The same" compares the request as sent: an omitted field is not the same as the value it was given. */
function sameOrConflict(known: SessionRegistered, wanted: SessionRegistered): SessionOutput {
  if (known.buildId === wanted.buildId && known.startedAt === wanted.startedAt) return sessionOutput(known);
  throw new Rejected(
    'conflict',
    `session ${known.sessionId} is registered with another buildId or startedAt`,
  );
}
