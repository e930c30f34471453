/**
 * Games that send events, sessions, and reports over an unreliable network, repeat unanswered requests, and record the
 * responses.
 */

import type { Principal } from '@questlog/runtime/directory/directory';
import { Rejected } from '@questlog/runtime/http/rejected';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Dice } from '../dice.ts';
import type { Process, World } from '../world/world.ts';
import type { Ingest, Service } from './services.ts';

/** Event as in a response. */
export interface Told {
  readonly id: string;
  readonly sessionId: string | null;
  readonly eventType: string;
  readonly occurredAt: string;
  readonly sequence?: number;
  readonly payload: { readonly marker: string };
  readonly reportIds: readonly string[];
  readonly overQuota?: boolean;
}

export interface SentEvent {
  /** Unique text in the payload. */
  readonly marker: string;
  readonly principal: Principal;
  readonly sessionId: string | null;
  readonly eventType: string;
  readonly occurredAt: string;
  readonly sequence: number;
  /** Responses that contain the event. */
  readonly told: Told[];
}

export interface SentReport {
  readonly id: string;
  readonly principal: Principal;
  readonly sessionId: string;
  readonly inside: readonly SentEvent[];
  isAcknowledged: boolean;
  /** True if the retraction was sent, whether or not it was acknowledged. */
  isRetracted: boolean;
}

export interface Session {
  readonly principal: Principal;
  readonly id: string;
  events: number;
}

const PATIENCE_MS = 8_000;
const TRIES = 12;

export class Games {
  readonly events: SentEvent[] = [];
  readonly reports: SentReport[] = [];
  /** Share of lost requests, of lost responses, and of duplicated requests. */
  loss = 0;
  /** True if ingest may not know acknowledged sessions and reports, because the log has lost records. */
  mayForget = false;
  readonly #world: World;
  readonly #ingests: readonly Service<Ingest>[];
  readonly #principals: readonly Principal[];
  readonly #sessions: Session[] = [];
  #running = 0;

  constructor(world: World, ingests: readonly Service<Ingest>[], principals: readonly Principal[]) {
    this.#world = world;
    this.#ingests = ingests;
    this.#principals = principals;
  }

  /** Returns a registered session, or undefined if there is none. */
  someSession(dice: Dice): Session | undefined {
    return dice.maybe(this.#sessions);
  }

  get areOver(): boolean {
    return this.#running === 0;
  }

  /** Starts a game that performs a number of actions in turn. */
  play(name: string, deeds: number): void {
    const world = this.#world;
    const by: Process = { name, isAlive: true, stoppedUntilMs: 0 };
    this.#running++;
    world.in(world.dice.between(0, 500), by, 'begins', () => {
      this.#deeds(by, deeds).then(
        () => {
          this.#running--;
        },
        (error: unknown) => {
          this.#running--;
          world.findings.push(`${name}: ${error instanceof Error ? error.stack : error}`);
        },
      );
    });
  }

  async #deeds(by: Process, deeds: number): Promise<void> {
    const { dice } = this.#world;
    await this.#register(by);
    for (let i = 0; i < deeds; i++) {
      await this.#pause(by, dice.between(0, 600));
      await dice.oneOf<Promise<unknown>>([
        [10, () => this.#sendEvents(by)],
        [1, () => this.#register(by)],
        [3, () => this.#fileReport(by)],
        [1, () => this.#retract(by)],
      ]);
    }
  }

  async #register(by: Process): Promise<void> {
    const { dice } = this.#world;
    const session = { principal: dice.from(this.#principals), id: dice.uuid(), events: 0 };
    const body = Buffer.from(JSON.stringify({ id: session.id }));
    const isTold = await this.#untilAnswered(by, 'session', (ingest) =>
      ingest.session(session.principal, body),
    );
    if (isTold) this.#sessions.push(session);
  }

  async #sendEvents(by: Process): Promise<void> {
    const { dice, clock } = this.#world;
    const session = dice.maybe(this.#sessions);
    if (session === undefined) return;
    const events = this.#newEvents(session, dice.between(1, 4));
    const { principal } = session;
    const key = dice.chance(0.7) ? dice.eventId(clock.now(), 0) : undefined;
    const body = Buffer.from(JSON.stringify(events.map(bodyOf)));
    const tries = key === undefined ? 1 : TRIES;
    const send = (ingest: Ingest) => ingest.events(principal, body, key);
    await this.#untilAnswered(by, 'events', send, tries, (answer) =>
      note(events, JSON.parse(answer.toString())),
    );
  }

  async #fileReport(by: Process): Promise<void> {
    const { dice, clock } = this.#world;
    const session = dice.maybe(this.#sessions);
    if (session === undefined) return;
    const { principal } = session;
    const known = this.events.filter((event) => event.principal === principal && event.told.length > 0);
    const inside = dice.chance(0.3) ? this.#newEvents(session, dice.between(1, 2)) : [];
    // One event that exists, and one that never arrives.
    const there = dice.chance(0.4) ? dice.maybe(known)?.told[0]?.id : undefined;
    const never = dice.chance(0.2) ? dice.eventId(clock.now(), 0) : undefined;
    const named = [there, never].filter((id) => id !== undefined);
    const told = { isAcknowledged: false, isRetracted: false };
    const report: SentReport = { id: dice.uuid(), principal, sessionId: session.id, inside, ...told };
    this.reports.push(report);
    const fields = { id: report.id, sessionId: session.id, events: inside.map(bodyOf), eventIds: named };
    const body = Buffer.from(JSON.stringify(fields));
    await this.#untilAnswered(
      by,
      'report',
      (ingest) => ingest.report(principal, body),
      TRIES,
      (answer) => {
        report.isAcknowledged = true;
        note(inside, JSON.parse(answer.toString()).events);
      },
    );
  }

  async #retract(by: Process): Promise<void> {
    const report = this.#world.dice.maybe(this.reports.filter(({ isAcknowledged }) => isAcknowledged));
    if (report === undefined) return;
    report.isRetracted = true;
    await this.#untilAnswered(by, 'retraction', (ingest) => ingest.retract(report.principal, report.id));
  }

  #newEvents(session: Session, count: number): SentEvent[] {
    const { dice, clock } = this.#world;
    for (let i = 0; i < count; i++) {
      this.events.push({
        marker: `m${this.events.length}`,
        principal: session.principal,
        sessionId: session.principal.revision === 'A' || dice.chance(0.9) ? session.id : null,
        eventType: dice.from(['step', 'shot']),
        occurredAt: new Date(clock.now() + dice.between(-700_000, 90_000)).toISOString(),
        sequence: ++session.events,
        told: [],
      });
    }
    return this.events.slice(-count);
  }

  /** False if no attempt got a response. */
  async #untilAnswered<T>(
    by: Process,
    what: string,
    send: (ingest: Ingest) => Promise<T>,
    tries = TRIES,
    onAnswer: (answer: T) => void = () => {},
  ): Promise<boolean> {
    const world = this.#world;
    for (let i = 0; i < tries; i++) {
      if (i > 0) await this.#pause(by, world.dice.between(100, 3_000));
      // Sends the request twice at the same time, like a proxy that repeats a slow request.
      const copies = world.dice.chance(this.loss) && tries > 1 ? 2 : 1;
      const answers = await Promise.all(
        Array.from({ length: copies }, () =>
          this.#call(by, what, send).then(
            (answer) => [answer],
            () => [],
          ),
        ),
      );
      for (const answer of answers.flat()) onAnswer(answer);
      if (answers.flat().length > 0) return true;
    }
    return false;
  }

  #call<T>(by: Process, what: string, send: (ingest: Ingest) => Promise<T>): Promise<T> {
    const world = this.#world;
    const { dice } = world;
    const service = dice.from(this.#ingests);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const back = (told: string, tell: () => void): void =>
      void world.in(dice.between(0, 30) / 10, by, `${what} ${told}`, tell);
    world.in(PATIENCE_MS, by, `${what}: waited in vain`, () => reject(new Unavailable('no answer')));
    if (dice.chance(this.loss)) return promise;
    world.in(dice.between(0, 30) / 10, service.process, what, () => {
      const { running } = service;
      if (running === undefined) return back('refused', () => reject(new Unavailable('nobody listens')));
      send(running).then(
        (answer) => dice.chance(this.loss) || back('answered', () => resolve(answer)),
        (error: unknown) => {
          this.#judge(what, error);
          back(`failed: ${messageOf(error)}`, () => reject(error));
        },
      );
    });
    return promise;
  }

  /** Every request of the games is valid, so only outages may fail it. */
  #judge(what: string, error: unknown): void {
    if (error instanceof Unavailable) return;
    if (this.mayForget && error instanceof Rejected) return;
    this.#world.findings.push(
      `a good request (${what}) was answered: ${error instanceof Error ? error.stack : error}`,
    );
  }

  #pause(by: Process, ms: number): Promise<void> {
    return new Promise((resolve) => this.#world.in(ms, by, 'goes on', resolve));
  }
}

function bodyOf({ marker, sessionId, eventType, occurredAt, sequence }: SentEvent): unknown {
  return {
    ...(sessionId === null ? {} : { sessionId }),
    eventType,
    occurredAt,
    sequence,
    payload: { marker },
  };
}

function note(sent: readonly SentEvent[], told: readonly Told[]): void {
  for (const [i, event] of sent.entries()) {
    const answer = told[i];
    if (answer !== undefined) event.told.push(answer);
  }
}
