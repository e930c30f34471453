/** Generates the requests of a simulated game from a seed. Simulated players have wrong clocks, outages, and crashes. */
import { SeededRandom } from './seededRandom.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 1_440 * MINUTE_MS;
const BATCH_MS = 5_000;
/** Maximum number of events per request. Revision B of the Questlog API accepts at most 200 events. */
const MAX_BATCH = 200;
const MAX_BATCH_BYTES = 1024 * 1024;
const LOG_LINES = 40;
const CHECKPOINTS = ['tutorial_start', 'tutorial_done', 'first_match', 'first_win', 'level_10'] as const;
const TUTORIAL_COMPLETION = { A: 0.6, B: 0.85 } as const;
const CHEATERS = { every: 100, nth: 13 };
const BUGS = [
  ['dash-collision-lock', 'Player stuck in wall', 'high'],
  ['shop-double-charge', 'Paid twice for one skin', 'critical'],
  ['arena-black-screen', 'Black screen after the match', 'medium'],
] as const;

export interface SimulationOptions {
  readonly seed: number;
  readonly players: number;
  /** Start of the simulated time range, in milliseconds since the epoch. The end of the range, `toMs`, is exclusive. */
  readonly fromMs: number;
  readonly toMs: number;
}

export interface Visit {
  readonly atMs: number;
  readonly session: Readonly<Record<string, unknown>> & { readonly id: string };
  readonly requests: readonly GameRequest[];
}

export interface GameRequest {
  readonly atMs: number;
  /** Name of the operation that the game calls. */
  readonly id: 'createEvents' | 'createReport';
  readonly body: object;
  readonly events: number;
  /** True to send the request a second time, like a client that did not receive the response. */
  readonly isAnswerLost: boolean;
  /** Lines of the log file that is uploaded with a crash report. Undefined if the request has no files. */
  readonly logLines?: readonly string[];
}

interface Player {
  readonly random: SeededRandom;
  readonly id: string;
  readonly build: { version: string; platform: string; channel: string };
  readonly deviceId: string;
  readonly frameMs: number;
  readonly visitsPerDay: number;
  readonly clockSkewMs: number;
  readonly isOftenOffline: boolean;
  readonly variant: keyof typeof TUTORIAL_COMPLETION;
  readonly killsPerMinute: number;
  readonly remainingCheckpoints: Checkpoint[];
}

interface Checkpoint {
  readonly name: string;
  readonly level: number;
}

interface GameEvent {
  readonly eventType: string;
  readonly atMs: number;
  readonly payload: object;
}

/** Yields the visits of all players day by day. The visits of a day are ordered by their start. */
export function* visitsOf({ seed, players, fromMs, toMs }: SimulationOptions): Generator<Visit> {
  const random = new SeededRandom(seed);
  const all = Array.from({ length: players }, (_, n) => createPlayer(random.split(), n));
  const isLive = toMs - fromMs < DAY_MS;
  for (let dayMs = fromMs; dayMs < toMs; dayMs += DAY_MS) {
    const endMs = Math.min(dayMs + DAY_MS, toMs);
    const visits = all.flatMap((player) => {
      // In a simulation of less than a day, every player makes one visit, which starts in the first half of the simulation.
      const times = isLive ? 1 : Math.floor(player.visitsPerDay + player.random.next());
      const within = (endMs - dayMs) * (isLive ? 0.5 : 1);
      return Array.from({ length: times }, () => dayMs + Math.floor(player.random.next() * within))
        .sort((a, b) => a - b)
        .map((atMs) => createVisit(player, atMs, endMs));
    });
    yield* visits.sort((a, b) => a.atMs - b.atMs);
  }
}

/** Merges consecutive event requests into requests of at most `MAX_BATCH` events and `MAX_BATCH_BYTES`, in the same order. */
export function mergeRequests(requests: readonly GameRequest[]): GameRequest[] {
  const all: GameRequest[] = [];
  let bytes = 0;
  for (const request of requests) {
    const last = all.at(-1);
    const ownBytes = Buffer.byteLength(JSON.stringify(request.body));
    bytes += ownBytes;
    if (
      Array.isArray(last?.body) &&
      Array.isArray(request.body) &&
      last.events + request.events <= MAX_BATCH &&
      bytes <= MAX_BATCH_BYTES
    ) {
      const body = [...last.body, ...request.body];
      all[all.length - 1] = { ...last, atMs: request.atMs, body, events: body.length };
    } else {
      all.push(request);
      bytes = ownBytes;
    }
  }
  return all;
}

function createPlayer(random: SeededRandom, n: number): Player {
  const [platform, deviceId, frameMs] = random.pick<[string, string, number]>(
    ['Android', 'Pixel 9', 24],
    ['iOS', 'iPhone 17', 14],
    ['Web', 'Chromium', 18],
    ['Windows', 'PC', 8],
  );
  const variant = random.pick('A', 'B');
  const isCheater = n % CHEATERS.every === CHEATERS.nth;
  return {
    random,
    id: `player-${n}`,
    build: {
      version: random.pick('1.4.0', '1.4.1', '1.4.2'),
      platform,
      channel: random.chance(0.05) ? 'beta' : 'prod',
    },
    deviceId,
    frameMs,
    visitsPerDay: random.next() ** 2 * 2,
    clockSkewMs: random.chance(0.05) ? random.integer(-180, 180) * MINUTE_MS : 0,
    isOftenOffline: random.chance(0.1),
    variant,
    killsPerMinute: isCheater ? 6 : random.integer(40, 100) / 100,
    remainingCheckpoints: checkpointsOf(random, variant),
  };
}

function checkpointsOf(random: SeededRandom, variant: Player['variant']): Checkpoint[] {
  const shares = [1, TUTORIAL_COMPLETION[variant], 0.8, 0.7, 0.6];
  const stop = shares.findIndex((share) => !random.chance(share));
  const names = CHECKPOINTS.slice(0, stop === -1 ? CHECKPOINTS.length : stop);
  return names.map((name, at) => ({ name, level: at + 1 }));
}

function createVisit(player: Player, atMs: number, endMs: number): Visit {
  const { random } = player;
  const id = random.uuid();
  const plannedMs = Math.min(random.integer(2, 40) * MINUTE_MS, Math.max(endMs - atMs - 1_000, 1_000));
  const hasCrashed = random.chance(player.build.version === '1.4.2' ? 0.12 : 0.03);
  const lengthMs = hasCrashed ? Math.ceil(plannedMs * random.next()) : plannedMs;
  const played = [...eventsOf(player, atMs, lengthMs, hasCrashed)]
    .filter((happened) => happened.atMs <= atMs + lengthMs)
    .sort((a, b) => a.atMs - b.atMs);
  const sent = played.map(({ eventType, atMs: happenedMs, payload }, n) => ({
    sessionId: id,
    eventType,
    occurredAt: timestamp(happenedMs + player.clockSkewMs),
    sequence: n + 1,
    payload,
  }));
  const batches = batchesOf(played, player.isOftenOffline ? lengthMs : BATCH_MS);
  const lastMs = batches.at(-1)?.atMs ?? atMs;
  return {
    atMs,
    session: {
      id,
      startedAt: timestamp(atMs + player.clockSkewMs),
      build: player.build,
      player: { externalId: player.id, deviceId: player.deviceId },
      metadata: { gameName: 'Fox Run', experiments: { tutorial: player.variant } },
    },
    requests: [
      ...batches.map(({ atMs: sentMs, from, to }) => ({
        atMs: sentMs,
        id: 'createEvents' as const,
        body: sent.slice(from, to),
        events: to - from,
        isAnswerLost: random.chance(0.03),
      })),
      ...(hasCrashed || random.chance(0.02)
        ? [
            {
              ...createReport(player, id, lastMs),
              ...(hasCrashed && { logLines: sent.slice(-LOG_LINES).map(logLine) }),
            },
          ]
        : []),
    ],
  };
}

function* eventsOf(
  player: Player,
  fromMs: number,
  lengthMs: number,
  hasCrashed: boolean,
): Generator<GameEvent> {
  const { random, frameMs, remainingCheckpoints, killsPerMinute } = player;
  const within = (): number => fromMs + Math.floor(random.next() * lengthMs);
  const randomCount = (perMinute: number): number =>
    Math.ceil((lengthMs / MINUTE_MS) * perMinute * random.next());
  for (let n = 1, passed = remainingCheckpoints.shift(); passed !== undefined; n++) {
    yield event('checkpoint', fromMs + Math.floor((n * lengthMs) / 6), passed);
    passed = random.chance(0.7) ? remainingCheckpoints.shift() : undefined;
  }
  for (let n = randomCount(5); n > 0; n--) {
    yield event('player_action', within(), { action: random.pick('jump', 'dash', 'open_menu', 'attack') });
  }
  for (let n = randomCount(0.5); n > 0; n--) {
    const frameTimeMs = frameMs + random.integer(0, 900) / 100;
    yield event('performance', within(), { frameTimeMs, memoryMb: random.integer(200, 900) });
  }
  for (let n = randomCount(1); n > 0; n--) {
    yield event('state_change', within(), {
      hp: random.integer(0, 100),
      quest: random.pick('rescue', 'heist'),
    });
  }
  for (let n = randomCount(0.5); n > 0; n--) {
    yield event('network', within(), {
      pingMs: random.integer(8, 400),
      kind: random.pick('wifi', 'cellular', 'cable'),
    });
  }
  for (let n = randomCount(1); n > 0; n--) yield event('economy', within(), createPayment(random));
  const kills = (lengthMs / MINUTE_MS) * killsPerMinute * (random.integer(80, 120) / 100);
  for (let n = Math.round(kills); n > 0; n--) {
    yield event('kill', within(), { weapon: random.pick('bow', 'sword', 'staff') });
  }
  for (let n = randomCount(0.3); n > 0; n--) {
    const [ticket, atMs, mode] = [random.uuid(), within(), random.pick('ranked', 'casual')];
    yield event('match_search', atMs, { ticket, mode });
    if (random.chance(0.85)) yield event('match_found', atMs + random.integer(500, 30_000), { ticket, mode });
  }
  if (hasCrashed) {
    yield event('error', fromMs + lengthMs, { kind: 'assertion', where: 'inventory' });
    yield event('crash', fromMs + lengthMs, { signal: 'SIGSEGV' });
  }
}

function createPayment(random: SeededRandom): object {
  const [currency, reason, amount] = random.pick<[string, string, number]>(
    ['gold', 'quest', random.integer(50, 200)],
    ['gold', 'loot', random.integer(1, 40)],
    ['gold', 'shop', -random.integer(30, 250)],
    ['gem', 'purchase', random.integer(100, 2_000)],
    ['gem', 'skin', -random.integer(100, 500)],
  );
  return { currency, reason, amount };
}

function createReport(
  { random, build, clockSkewMs }: Player,
  sessionId: string,
  lastMs: number,
): GameRequest {
  const [fingerprint, title, severity] = random.pick<readonly [string, string, string]>(...BUGS);
  const atMs = lastMs + random.integer(1_000, 3_000);
  const occurredAt = timestamp(atMs + clockSkewMs);
  return {
    atMs,
    id: 'createReport',
    body: {
      clientRequestId: random.uuid(),
      sessionId,
      occurredAt,
      report: {
        title,
        description: 'It happened again.',
        severity,
        reporterType: 'player',
        sourceChannel: 'api',
        fingerprint,
      },
      context: {
        sceneName: random.pick('Arena', 'Forest', 'Shop'),
        buildVersion: build.version,
        platform: build.platform,
      },
      events: [{ sessionId, eventType: 'error', occurredAt, payload: { kind: 'report', fingerprint } }],
    },
    events: 1,
    isAnswerLost: random.chance(0.1),
  };
}

interface Batch {
  readonly atMs: number;
  readonly from: number;
  readonly to: number;
}

function batchesOf(events: readonly GameEvent[], batchMs: number): Batch[] {
  const batches: Batch[] = [];
  for (let from = 0; from < events.length; ) {
    const dueMs = (events[from]?.atMs ?? 0) + batchMs;
    let to = from + 1;
    while (to < events.length && to - from < MAX_BATCH && (events[to]?.atMs ?? 0) <= dueMs) to += 1;
    batches.push({ atMs: Math.min(dueMs, events.at(-1)?.atMs ?? 0), from, to });
    from = to;
  }
  return batches;
}

function event(eventType: string, atMs: number, payload: object): GameEvent {
  return { eventType, atMs, payload };
}

function logLine({
  occurredAt,
  eventType,
  payload,
}: {
  readonly occurredAt: string;
  readonly eventType: string;
  readonly payload: object;
}): string {
  return `${occurredAt} ${eventType} ${JSON.stringify(payload)}`;
}

function timestamp(ms: number): string {
  return new Date(ms).toISOString();
}
