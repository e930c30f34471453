/**
 * Generates a small game from a seed: 140 players on ten days. The game contains cases that a careless query counts incorrectly:
 * sessions without a player or a build, events without a session or out of order, sessions that are registered days later, wrong
 * clocks, players who change their variant, searches without a result, and a cheater.
 */
import { Dice } from '../simulation/dice.ts';

export const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
/** Period of the questions in UTC. The period ends before `to`. */
export const PERIOD = { from: Date.UTC(2026, 10, 1), to: Date.UTC(2026, 10, 11) };
export const CHECKPOINTS = ['tutorial_start', 'tutorial_done', 'first_match', 'first_win'] as const;
export const CHEATER = 'player-13';

const PLAYERS = 140;
const SHARES_OF_RETURN = { next: 0.45, seventh: 0.25, other: 0.15 };
const PLATFORMS = [
  { platform: 'Android', frameMs: 24, crashes: 0.05 },
  { platform: 'Web', frameMs: 18, crashes: 0.02 },
  { platform: 'Windows', frameMs: 8, crashes: 0.01 },
] as const;
const VERSIONS = [
  { version: '1.4.1', crashFactor: 1 },
  { version: '1.4.2', crashFactor: 6 },
] as const;

export interface GameEvent {
  readonly type: string;
  /** Milliseconds since the epoch, by the game's clock. */
  readonly atMs: number;
  /** Payload. Integers can exceed the range that a double represents exactly. */
  readonly payload: Readonly<Record<string, string | number | bigint>>;
}

type Channel = 'beta' | 'prod';

export interface GameSession {
  readonly id: string;
  readonly player: string | null;
  /** Start by the game's clock. Null if the client sent no start. */
  readonly startedMs: number | null;
  readonly registeredMs: number;
  readonly build: { readonly version: string; readonly platform: string; readonly channel: Channel } | null;
  readonly variant: string | null;
  readonly events: readonly GameEvent[];
}

export interface SmallGame {
  readonly sessions: readonly GameSession[];
  /** Events without a session. */
  readonly strayEvents: readonly GameEvent[];
}

export function smallGame(seed: number): SmallGame {
  const dice = new Dice(seed);
  const sessions = Array.from({ length: PLAYERS }, (_, number) =>
    sessionsOf(dice, `player-${number}`),
  ).flat();
  const strangers = times(12, () => ({
    ...aSession(dice, null, dice.between(0, 9), { variant: 'A', isFirst: true }),
    build: null,
  }));
  return {
    sessions: [...sessions, ...strangers, ...beyondThePeriod(dice)],
    strayEvents: CHECKPOINTS.map((name, at) => checkpoint(name, PERIOD.from + at * MINUTE_MS)),
  };
}

/** Returns the sessions of one player. Draws the days first, so that the events of a day do not affect the return of players. */
function sessionsOf(dice: Dice, player: string): GameSession[] {
  const firstDay = player === CHEATER ? 2 : dice.between(0, 9);
  const days = Array.from({ length: 10 - firstDay }, (_, after) => after).filter((after) => {
    if (after === 0) return true;
    const { next, seventh, other } = SHARES_OF_RETURN;
    return dice.chance(after === 1 ? next : after === 7 ? seventh : other);
  });
  const variant = dice.from(['A', 'B', null]);
  return days.flatMap((after, index) => {
    const day = firstDay + after;
    const changed = variant !== null && index > 0 && dice.chance(0.1) ? 'B' : variant;
    const first = aSession(dice, player, day, { variant: changed, isFirst: index === 0 });
    return dice.chance(0.3) ? [first, aSession(dice, player, day, { variant: changed })] : [first];
  });
}

/**
 * Returns sessions before and after the period, which no answer counts. A player who first played before the period is not a new
 * player.
 */
function beyondThePeriod(dice: Dice): GameSession[] {
  return [
    aSession(dice, 'player-early', -20, { variant: 'A', isFirst: true }),
    aSession(dice, 'player-early', 3, { variant: 'B' }),
    aSession(dice, 'player-late', 12, { variant: 'B', isFirst: true }),
  ];
}

function aSession(
  dice: Dice,
  player: string | null,
  day: number,
  { variant = null, isFirst = false }: { variant?: string | null; isFirst?: boolean } = {},
): GameSession {
  const beganMs = PERIOD.from + day * DAY_MS + dice.between(0, 20 * 60) * MINUTE_MS;
  const { platform, frameMs, crashes } = dice.from(PLATFORMS);
  const { version, crashFactor } = dice.from(VERSIONS);
  // The query for outliers ignores players with less than ten minutes.
  const lengthMs = dice.between(player === CHEATER ? 15 * 60 : 6 * 60, 40 * 60) * 1000;
  const within = (): number => beganMs + dice.between(0, lengthMs);
  const events = [
    ...(isFirst ? checkpointsOf(dice, variant, beganMs) : []),
    ...times(6, () => event('performance', within(), { frameTimeMs: frameMs + dice.between(0, 900) / 100 })),
    ...times(killsIn(dice, player, lengthMs), () => event('kill', within(), { weapon: 'bow' })),
    ...times(4, () => event('economy', within(), aPayment(dice))),
    ...times(2, (nth) => aSearch(dice, `ticket-${nth}`, within())).flat(),
    ...times(dice.chance(crashes * crashFactor) ? dice.between(1, 2) : 0, () =>
      event('crash', within(), { signal: 'SIGSEGV' }),
    ),
  ];
  // An empty session ends immediately after its registration.
  const isEmpty = !isFirst && dice.chance(0.05);
  return {
    id: dice.uuid(),
    player,
    ...clocksOf(dice, beganMs),
    build: { version, platform, channel: dice.chance(0.2) ? 'beta' : 'prod' },
    variant,
    events: isEmpty ? [] : events,
  };
}

/**
 * Some players are offline and register on a later day. Some clients send no time, a time ahead of the server, or a time
 * in 1970 or 2062.
 */
function clocksOf(dice: Dice, beganMs: number): Pick<GameSession, 'startedMs' | 'registeredMs'> {
  const [in1970, in2062] = [beganMs % DAY_MS, Date.UTC(2062, 0) + (beganMs % DAY_MS)];
  const startedMs = dice.from([beganMs, beganMs, null, beganMs + 365 * DAY_MS, in1970, in2062]);
  const isLate = startedMs === beganMs && dice.chance(0.3);
  return { startedMs, registeredMs: isLate ? beganMs + dice.between(1, 3) * DAY_MS : beganMs };
}

/** Returns the checkpoints of a first session. More players finish the tutorial with variant B. Some players skip a checkpoint. */
function checkpointsOf(dice: Dice, variant: string | null, beganMs: number): GameEvent[] {
  const shares = [1, variant === 'B' ? 0.9 : 0.5, 0.7, 0.5];
  const passed = shares.findIndex((share) => !dice.chance(share));
  const names = CHECKPOINTS.slice(0, passed === -1 ? CHECKPOINTS.length : passed);
  const inOrder = names.map((name, at) => checkpoint(name, beganMs + (at + 1) * MINUTE_MS));
  const beforeItsTime = dice.chance(0.2) ? [checkpoint('first_win', beganMs + 1)] : [];
  return [...inOrder.toReversed(), ...beforeItsTime];
}

function killsIn(dice: Dice, player: string | null, lengthMs: number): number {
  const aMinute = player === CHEATER ? 6 : dice.between(80, 160) / 100;
  return Math.round((aMinute * lengthMs) / MINUTE_MS / 4);
}

/**
 * Returns a payment. One amount exceeds 2^53, so a double loses its last digit. Some amounts are fractions, one of them as a
 * string.
 */
function aPayment(dice: Dice): GameEvent['payload'] {
  const [currency, reason, amount] = dice.from<[string, string, string | number | bigint]>([
    ['gold', 'quest', dice.between(50, 200)],
    ['gold', 'loot', dice.between(1, 40)],
    ['gold', 'shop', -dice.between(30, 250)],
    ['gold', 'refund', dice.from([-20, 20])],
    ['gem', 'purchase', 9_007_199_254_740_993n],
    ['gem', 'skin', -dice.between(100, 500)],
    ['usd', 'purchase', 4.99],
    ['usd', 'pass', '0.99'],
    ['usd', 'refund', -0.1],
  ]);
  return { currency, reason, amount };
}

/**
 * Returns the events of one search. Tickets are unique within a session. Some searches have no result, and some have only the
 * result event.
 */
function aSearch(dice: Dice, ticket: string, atMs: number): GameEvent[] {
  const mode = dice.from(['ranked', 'casual']);
  const search = event('match_search', atMs, { ticket, mode });
  if (dice.chance(mode === 'ranked' ? 0.25 : 0.1)) return [search];
  const waitMs = dice.between(500, mode === 'ranked' ? 60_000 : 15_000);
  const found = event('match_found', atMs + waitMs, { ticket });
  return dice.chance(0.03) ? [found] : [found, search];
}

function checkpoint(name: string, atMs: number): GameEvent {
  return event('checkpoint', atMs, { name });
}

function event(type: string, atMs: number, payload: GameEvent['payload']): GameEvent {
  return { type, atMs, payload };
}

function times<T>(count: number, make: (nth: number) => T): T[] {
  return Array.from({ length: count }, (_, nth) => make(nth));
}
