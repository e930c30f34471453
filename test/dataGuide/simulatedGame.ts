/** Converts the output of `questlog simulate` to the sessions from which the data guide's answers are counted. */
import { visitsOf } from '@questlog/cli/simulate/core/game';
import type { Period } from './expectedAnswers.ts';
import type { GameEvent, GameSession } from './smallGame.ts';

interface SentEvent {
  readonly eventType: string;
  readonly occurredAt: string;
  readonly payload: GameEvent['payload'];
}

interface SentSession {
  readonly startedAt: string;
  readonly player: { readonly externalId: string };
  readonly build: GameSession['build'];
  readonly metadata: { readonly experiments: { readonly tutorial: string } };
}

/** Returns the simulated sessions. All sessions are registered at the end of the period, and some clocks are wrong. */
export function simulatedSessions(of: { seed: number; players: number }, period: Period): GameSession[] {
  const visits = visitsOf({ ...of, fromMs: period.from, toMs: period.to });
  return Array.from(visits, ({ session, requests }) => {
    const { startedAt, player, build, metadata } = session as typeof session & SentSession;
    // The body of a report contains events too.
    const sent = requests.flatMap(({ body }) => ('events' in body ? body.events : body) as SentEvent[]);
    return {
      id: session.id,
      player: player.externalId,
      startedMs: Date.parse(startedAt),
      registeredMs: period.to,
      build,
      variant: metadata.experiments.tutorial,
      events: sent.map(({ eventType, occurredAt, payload }) => {
        return { type: eventType, atMs: Date.parse(occurredAt), payload };
      }),
    };
  });
}
