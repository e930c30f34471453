/** Handles POST /v1/ingest/sessions. A retry gets the same response. Different content for an existing id is rejected. */
import { randomBytes } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import { bodyRejection } from '@questlog/runtime/http/core/fieldProblems';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import type { SessionCreated } from '@questlog/schemas/http/session';
import { formatMicros } from '@questlog/schemas/isoTime';
import { laneOfSession } from '@questlog/schemas/partition';
import { eventId } from '@questlog/schemas/uuid';
import { type SkewedTime, skewedTimes } from '../core/clockSkew.ts';
import { buildProblems } from '../core/tokenBuilds.ts';
import type { CachedSession } from '../entityCache/core/packedSessions.ts';
import { cachedSession, type SessionCache } from '../entityCache/sessionCache.ts';
import { readSessionInput } from './core/sessionInput.ts';

interface RegisteredSession {
  readonly status: 200 | 201;
  readonly body: SessionCreated;
  readonly ignored: readonly string[];
  readonly warned: readonly SkewedTime[];
}

/**
 * @throws Rejected if the client must change the request
 * @throws Unavailable if the client can send the request again
 */
export async function registerSession(
  { sessions, clock }: { sessions: SessionCache; clock: Clock },
  { tenant, project, buildIds }: Principal,
  body: Buffer,
  isStrict = false,
): Promise<RegisteredSession> {
  const { id: requestedId, ignored, times, ...content } = readSessionInput(body, project.id, isStrict);
  const field = content.build === null ? 'buildId' : 'build';
  const problems = buildProblems(buildIds, { [field]: content.buildId });
  if (problems.length > 0) throw bodyRejection(problems);
  const registeredAt = clock.now();
  const warnings = { ignored, warned: skewedTimes(times, registeredAt) };
  const sessionId = requestedId ?? eventId(registeredAt, 0, randomBytes(8));
  const lane = laneOfSession(sessionId, tenant.spread);
  const record = { tenantId: tenant.id, projectId: project.id, sessionId, registeredAt, lane, ...content };
  const requested = cachedSession(record);
  if (requestedId !== null) {
    const existing = (await sessions.find(tenant.id, project.id, [sessionId])).get(sessionId);
    if (existing !== undefined)
      return { status: 200, body: sameOrConflict(existing, requested), ...warnings };
  }
  const { registered, isOwn } = await sessions.register(record, requestedId === null);
  return isOwn
    ? { status: 201, body: createdSession(requested), ...warnings }
    : { status: 200, body: sameOrConflict(registered, requested), ...warnings };
}

function createdSession({ sessionId, buildId, startedAt }: CachedSession): SessionCreated {
  return { sessionId, id: sessionId, buildId, startedAt: formatMicros(startedAt) };
}

function sameOrConflict(existing: CachedSession, requested: CachedSession): SessionCreated {
  if (existing.content === requested.content) return createdSession(existing);
  throw new Rejected(
    'conflict',
    `session ${existing.sessionId} is already registered with different content`,
  );
}
