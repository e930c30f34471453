/** Appends the small game to the log. The projector projects the records like the records of a live game. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { Bench } from '@questlog/projector/testing/projectorBench';
import { type Build, buildIdOf } from '@questlog/schemas/buildId';
import { anEventsAccepted, aSession } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { eventId } from '@questlog/schemas/uuid';
import type { GameEvent, GameSession, SmallGame } from './smallGame.ts';

export interface Owner {
  readonly tenantId: string;
  readonly projectId: string;
}

/** Delay between the first event of a session and the receipt of all its events. */
const DELAY_MS = 60_000;

/** @param partitions number of partitions that get the events */
export async function appendGame(bench: Bench, owner: Owner, game: SmallGame, partitions = 1): Promise<void> {
  await bench.append(
    TOPICS.sessions,
    sessionRegistered,
    game.sessions.map((one) => sessionRecord(owner, one)),
  );
  const requests = game.sessions.filter(({ events }) => events.length > 0);
  const [stray] = game.strayEvents;
  const records = [
    ...requests.map((session) => eventsRecord(owner, session, session.registeredMs + DELAY_MS)),
    eventsRecord(owner, { id: null, build: null, events: game.strayEvents }, stray?.atMs ?? 0),
  ];
  for (let partition = 0; partition < partitions; partition++) {
    const ofPartition = records.filter((_, at) => at % partitions === partition);
    await bench.append(TOPICS.events, eventsAccepted, ofPartition, partition);
  }
}

function sessionRecord(owner: Owner, { id, player, startedMs, registeredMs, build, variant }: GameSession) {
  return aSession({
    ...owner,
    sessionId: id,
    startedAt: startedMs === null ? null : BigInt(startedMs) * 1000n,
    registeredAt: registeredMs,
    build: wholeBuild(build),
    buildId: buildIdIn(owner, build),
    playerExternalId: player,
    metadata: Buffer.from(JSON.stringify(variant === null ? {} : { experiments: { tutorial: variant } })),
  });
}

/** Returns the record of a session's events. Like ingest, gives each event the build of its session. */
function eventsRecord(
  owner: Owner,
  { id, build, events }: Pick<GameSession, 'build' | 'events'> & { readonly id: string | null },
  receivedAt: number,
) {
  return anEventsAccepted({
    ...owner,
    appendId: randomUUID(),
    receivedAt,
    events: events.map(({ type, atMs, payload }) => ({
      id: eventId(receivedAt, 0, randomBytes(8)),
      sessionId: id,
      buildId: buildIdIn(owner, build),
      eventType: type,
      occurredAt: BigInt(atMs) * 1000n,
      payload: Buffer.from(jsonOf(payload)),
    })),
  });
}

function buildIdIn({ projectId }: Owner, build: GameSession['build']): string | null {
  const whole = wholeBuild(build);
  return whole === null ? null : buildIdOf(projectId, whole);
}

function wholeBuild(build: GameSession['build']): Build | null {
  return build === null ? null : { ...build, gitCommit: null };
}

/** Writes bigints as JSON numbers, as a game with 64-bit integers does. */
function jsonOf(payload: GameEvent['payload']): string {
  const fields = Object.entries(payload).map(([name, value]) => {
    return `${JSON.stringify(name)}:${typeof value === 'bigint' ? value : JSON.stringify(value)}`;
  });
  return `{${fields.join(',')}}`;
}
