/** POST /v1/ingest/sessions: registers a session once; the same again is answered, other content under its id is refused. */
import { randomBytes } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import type { SessionCreated } from '@questlog/schemas/http/session';
import { laneOfSession } from '@questlog/schemas/partition';
import { eventId } from '@questlog/schemas/uuid';
import { type SkewedTime, skewedTimes } from '../core/clockSkew.ts';
import { bodyVerdict } from '../core/fieldProblems.ts';
import { formatMicros } from '../core/occurredAt.ts';
import { otherBuild } from '../core/tokenBuilds.ts';
import type { KnownSession } from '../known/core/packedSessions.ts';
import { knownSession, type Sessions } from '../known/sessions.ts';
import { Rejected } from '../rejected.ts';
import { readSessionInput } from './core/sessionInput.ts';

interface RegisteredSession {
  readonly status: 200 | 201;
  readonly body: SessionCreated;
  readonly ignored: readonly string[];
  readonly warned: readonly SkewedTime[];
}

/** @throws Rejected for what the game must change, Unavailable for what it may send again. */
export async function registerSession(
  { sessions, clock }: { sessions: Sessions; clock: Clock },
  { tenant, project, buildIds }: Principal,
  body: Buffer,
  isStrict = false,
): Promise<RegisteredSession> {
  const { id: givenId, ignored, times, ...content } = readSessionInput(body, project.id, isStrict);
  const field = content.build === null ? 'buildId' : 'build';
  const refused = otherBuild(buildIds, { [field]: content.buildId });
  if (refused.length > 0) throw bodyVerdict(refused);
  const registeredAt = clock.now();
  const told = { ignored, warned: skewedTimes(times, registeredAt) };
  const sessionId = givenId ?? eventId(registeredAt, 0, randomBytes(8));
  const lane = laneOfSession(sessionId, tenant.spread);
  const record = { tenantId: tenant.id, projectId: project.id, sessionId, registeredAt, lane, ...content };
  const wanted = knownSession(record);
  if (givenId !== null) {
    const known = (await sessions.find(tenant.id, project.id, [sessionId])).get(sessionId);
    if (known !== undefined) return { status: 200, body: sameOrConflict(known, wanted), ...told };
  }
  const { winner, isOwn } = await sessions.register(record, givenId === null);
  return isOwn
    ? { status: 201, body: createdSession(wanted), ...told }
    : { status: 200, body: sameOrConflict(winner, wanted), ...told };
}

function createdSession({ sessionId, buildId, startedAt }: KnownSession): SessionCreated {
  return { sessionId, id: sessionId, buildId, startedAt: formatMicros(startedAt) };
}

function sameOrConflict(known: KnownSession, wanted: KnownSession): SessionCreated {
  if (known.content === wanted.content) return createdSession(known);
  throw new Rejected('conflict', `session ${known.sessionId} is registered with other content`);
}
