/** Counts the answers to the questions of the data guide from the generated game. Uses loops and sorted lists, no SQL. */
import { CHECKPOINTS, DAY_MS, type GameEvent, type GameSession } from './smallGame.ts';

export type Row = Readonly<Record<string, unknown>>;

/** Period in milliseconds since the epoch. The period ends before `to`. */
export interface Period {
  readonly from: number;
  readonly to: number;
}

/** Returns the answers by the number of the question. */
export function expectedAnswers(
  all: readonly GameSession[],
  period: Period,
): Readonly<Record<number, Row[]>> {
  const isInPeriod = (atMs: number): boolean => atMs >= period.from && atMs < period.to;
  const sessions = all.filter((session) => isInPeriod(beganMs(session)));
  const played = all.map((session) => {
    return { ...session, events: session.events.filter(({ atMs }) => isInPeriod(atMs)) };
  });
  return {
    1: dailyPlayers(sessions),
    2: retention(all, period),
    3: funnel(played),
    4: sessionLengths(played),
    5: economy(played),
    6: crashFree(sessions),
    7: frameTimes(played),
    8: matchmaking(played),
    9: [experiment(sessions)],
    10: outOfLine(played),
  };
}

/** Treats a time ahead of the server as wrong. A time at most 90 days behind can be from a player who was offline. */
function beganMs({ startedMs, registeredMs }: GameSession): number {
  const isTrusted =
    startedMs !== null && startedMs <= registeredMs && startedMs >= registeredMs - 90 * DAY_MS;
  return isTrusted ? startedMs : registeredMs;
}

function dailyPlayers(sessions: readonly GameSession[]): Row[] {
  return grouped(sessions, (session) => dayOf(beganMs(session))).map(([day, those]) => {
    return { day, players: new Set(playersOf(those)).size, sessions: those.length };
  });
}

function retention(all: readonly GameSession[], period: Period): Row[] {
  const sessions = all.filter((session) => beganMs(session) < period.to);
  const daysByPlayer = byPlayer(sessions).map(([, those]) => new Set(those.map(dayNumber)));
  const firstOf = (days: ReadonlySet<number>): number => Math.min(...days);
  const fromDay = period.from / DAY_MS;
  const firsts = [...new Set(daysByPlayer.map(firstOf))].filter((first) => first >= fromDay);
  return firsts
    .sort((a, b) => a - b)
    .map((first) => {
      const cohort = daysByPlayer.filter((days) => firstOf(days) === first);
      const back = (after: number): number | null => {
        if ((first + after) * DAY_MS >= period.to) return null;
        return cohort.filter((days) => days.has(first + after)).length / cohort.length;
      };
      return { first_day: dayOf(first * DAY_MS), players: cohort.length, day_1: back(1), day_7: back(7) };
    });
}

/** Counts the checkpoints that a player passed in order within a day. Takes the best result over all first checkpoints. */
function funnel(sessions: readonly GameSession[]): Row[] {
  const steps = byPlayer(sessions).map(([, those]) => {
    const passed = eventsOf(those, 'checkpoint').sort((a, b) => a.atMs - b.atMs);
    const begins = passed.filter(({ payload }) => payload['name'] === CHECKPOINTS[0]);
    return Math.max(0, ...begins.map((begin) => stepsFrom(begin, passed)));
  });
  const began = steps.filter((reached) => reached >= 1).length;
  return CHECKPOINTS.map((name, at) => {
    const players = steps.filter((reached) => reached > at).length;
    return { step: at + 1, checkpoint: name, players, share: players / began };
  });
}

function stepsFrom(begin: GameEvent, passed: readonly GameEvent[]): number {
  let reached = 1;
  let atMs = begin.atMs;
  for (const name of CHECKPOINTS.slice(1)) {
    const next = passed.find(
      ({ payload, ...event }) =>
        payload['name'] === name && event.atMs >= atMs && event.atMs <= begin.atMs + DAY_MS,
    );
    if (next === undefined) break;
    reached += 1;
    atMs = next.atMs;
  }
  return reached;
}

function sessionLengths(sessions: readonly GameSession[]): Row[] {
  const played = sessions.filter(({ events }) => events.length > 0).map(spanOf);
  return grouped(played, ({ firstMs }) => dayOf(firstMs)).map(([day, those]) => {
    const minutes = those.map((span) => span.minutes);
    return {
      day,
      sessions: those.length,
      mean: sum(minutes) / minutes.length,
      median: quantile(minutes, 0.5),
      p90: quantile(minutes, 0.9),
    };
  });
}

function economy(sessions: readonly GameSession[]): Row[] {
  const payments = eventsOf(sessions, 'economy').map(({ payload }) => payload);
  return grouped(payments, ({ currency, reason }) => `${currency}/${reason}`)
    .map(([, those]) => {
      const amounts = those.map(({ amount = 0 }) => hundredthsOf(amount));
      const earned = amounts.reduce((total, amount) => (amount > 0n ? total + amount : total), 0n);
      const spent = amounts.reduce((total, amount) => (amount < 0n ? total - amount : total), 0n);
      const { currency, reason } = those[0] ?? {};
      return { currency: `${currency}`, reason: `${reason}`, earned, spent, net: earned - spent };
    })
    .sort((a, b) => {
      const byNet = b.net > a.net ? 1 : b.net < a.net ? -1 : 0;
      return compare(a.currency, b.currency) || byNet || compare(a.reason, b.reason);
    })
    .map((row) => ({
      ...row,
      ...{ earned: decimalText(row.earned), spent: decimalText(row.spent), net: decimalText(row.net) },
    }));
}

/** Returns the amount in hundredths. The amounts of the game have at most two decimal places. */
function hundredthsOf(amount: string | number | bigint): bigint {
  return typeof amount === 'bigint' ? amount * 100n : BigInt(Math.round(Number(amount) * 100));
}

function decimalText(hundredths: bigint): string {
  const [sign, digits] = hundredths < 0n ? ['-', -hundredths] : ['', hundredths];
  const fraction = `${digits % 100n}`.padStart(2, '0').replace(/0+$/, '');
  return `${sign}${digits / 100n}${fraction === '' ? '' : `.${fraction}`}`;
}

function crashFree(sessions: readonly GameSession[]): Row[] {
  const built = sessions.flatMap(({ build, events }) => (build === null ? [] : [{ ...build, events }]));
  return grouped(built, ({ version, platform, channel }) => `${version}/${platform}/${channel}`)
    .map(([, those]) => {
      const free = those.filter(({ events }) => !events.some(({ type }) => type === 'crash')).length;
      return {
        version: those[0]?.version ?? '',
        platform: those[0]?.platform ?? '',
        channel: those[0]?.channel ?? '',
        sessions: those.length,
        crash_free_sessions: free,
        crash_free: free / those.length,
      };
    })
    .sort((a, b) => {
      // The query sorts by the rounded share.
      const byShare = Math.round(a.crash_free * 1000) - Math.round(b.crash_free * 1000);
      const nameOf = ({ version, platform, channel }: typeof a) => `${version}/${platform}/${channel}`;
      return byShare || compare(nameOf(a), nameOf(b));
    });
}

function frameTimes(sessions: readonly GameSession[]): Row[] {
  const built = sessions.filter(({ build }) => build !== null);
  return grouped(built, ({ build }) => build?.platform ?? '').map(([platform, those]) => {
    const values = eventsOf(those, 'performance').map(({ payload }) => Number(payload['frameTimeMs']));
    const p50_p95_p99 = [0.5, 0.95, 0.99].map((level) => quantile(values, level));
    return { platform, samples: values.length, p50_p95_p99 };
  });
}

function matchmaking(sessions: readonly GameSession[]): Row[] {
  const searches = sessions.flatMap(({ events }) =>
    events
      .filter(({ type }) => type === 'match_search')
      .map(({ payload: { mode, ticket }, atMs }) => {
        const found = events.find(
          ({ type, payload }) => type === 'match_found' && payload['ticket'] === ticket,
        );
        return { mode: `${mode}`, waitS: found === undefined ? null : (found.atMs - atMs) / 1000 };
      }),
  );
  return grouped(searches, ({ mode }) => mode).map(([mode, those]) => {
    const waits = those.flatMap(({ waitS }) => waitS ?? []);
    return {
      mode,
      searches: those.length,
      given_up: (those.length - waits.length) / those.length,
      median_s: quantile(waits, 0.5),
      p95_s: quantile(waits, 0.95),
    };
  });
}

/** Applies the textbook test of two proportions, with unpooled variances. */
function experiment(sessions: readonly GameSession[]): Row {
  const players = byPlayer(sessions).map(([, those]) => {
    const seen = those.filter(({ variant }) => variant !== null);
    const first = seen.sort((a, b) => beganMs(a) - beganMs(b))[0];
    const finished = eventsOf(those, 'checkpoint').some(({ payload }) => payload['name'] === 'tutorial_done');
    return { variant: first?.variant, finished };
  });
  const [a, b] = ['A', 'B'].map((variant) => {
    const those = players.filter((player) => player.variant === variant);
    const finished = those.filter((player) => player.finished).length;
    const rate = finished / those.length;
    return { players: those.length, finished, rate, variance: (rate * (1 - rate)) / those.length };
  });
  if (a === undefined || b === undefined) throw new Error('an experiment has two variants');
  const difference = b.rate - a.rate;
  const deviation = Math.sqrt(a.variance + b.variance);
  return {
    players_a: a.players,
    players_b: b.players,
    finished_a: a.finished,
    finished_b: b.finished,
    difference,
    low: difference - 1.959964 * deviation,
    high: difference + 1.959964 * deviation,
    p_value: 2 * normalTail(Math.abs(difference) / deviation),
  };
}

function outOfLine(sessions: readonly GameSession[]): Row[] {
  const rates = byPlayer(sessions).flatMap(([player, those]) => {
    const minutes = sum(those.filter(({ events }) => events.length > 0).map((one) => spanOf(one).minutes));
    return minutes < 10 ? [] : [{ player, rate: eventsOf(those, 'kill').length / minutes }];
  });
  const median = quantile(
    rates.map(({ rate }) => rate),
    0.5,
  );
  const spread = quantile(
    rates.map(({ rate }) => Math.abs(rate - median)),
    0.5,
  );
  return rates
    .map(({ player, rate }) => {
      return { player, kills_a_minute: rate, deviations: (rate - median) / (1.4826 * spread) };
    })
    .filter(({ deviations }) => deviations > 6)
    .sort((a, b) => b.deviations - a.deviations);
}

function dayNumber(session: GameSession): number {
  return Math.floor(beganMs(session) / DAY_MS);
}

function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10);
}

function spanOf({ events }: GameSession): { firstMs: number; minutes: number } {
  const instants = events.map(({ atMs }) => atMs);
  const firstMs = Math.min(...instants);
  return { firstMs, minutes: (Math.max(...instants) - firstMs) / 60_000 };
}

function playersOf(sessions: readonly GameSession[]): string[] {
  return sessions.flatMap(({ player }) => player ?? []);
}

function byPlayer(sessions: readonly GameSession[]): [string, GameSession[]][] {
  return grouped(
    sessions.filter(({ player }) => player !== null),
    ({ player }) => player ?? '',
  );
}

function eventsOf(sessions: readonly GameSession[], wanted: string): GameEvent[] {
  return sessions.flatMap(({ events }) => events.filter(({ type }) => type === wanted));
}

/** Returns the groups in the order of their keys. */
function grouped<T>(items: readonly T[], keyOf: (item: T) => string): [string, T[]][] {
  return [...Map.groupBy(items, keyOf)].sort(([a], [b]) => compare(a, b));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Interpolates between the two nearest values, as ClickHouse's `quantile` and spreadsheets do. */
function quantile(values: readonly number[], level: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const place = level * (sorted.length - 1);
  const [lower = 0, upper = lower] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return lower + (upper - lower) * (place - Math.floor(place));
}

/** Returns the area under the normal curve above `z`, by Simpson's rule. */
function normalTail(z: number): number {
  const [steps, end] = [2_000, z + 12];
  const width = (end - z) / steps;
  const density = (x: number): number => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
  const weighted = Array.from({ length: steps + 1 }, (_, i) => {
    const weight = i === 0 || i === steps ? 1 : i % 2 === 0 ? 2 : 4;
    return weight * density(z + i * width);
  });
  return (sum(weighted) * width) / 3;
}
