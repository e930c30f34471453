/** Players of one tenant: sessions that send in order, each request after the last answer, until told to end. */
import { randomUUID } from 'node:crypto';
import { aKey, anEvent, eventually, type TestProject } from '../e2e/builders.ts';
import type { Answer } from '../e2e/product.ts';

/** Relative to the raise of the tenant's spread; `between`: not every ingest knew of it yet. */
export type Era = 'before' | 'between' | 'after';

export interface PlayedSession {
  readonly id: string;
  /** When the session was registered: wholly before, wholly after, or neither. */
  readonly opened: Era;
  /** A session of few requests, as many as any other short one. */
  readonly isShort: boolean;
  /** Ids in the order of the answers; the n-th belongs to the event with `n` in its payload. */
  readonly eventIds: string[];
}

const EVENTS_A_REQUEST = 5;
const REQUESTS_A_SHORT_SESSION = 3;
const TAKEN_WITHIN_MS = 60_000;

export class Crowd {
  era: Era = 'before';
  readonly sessions: PlayedSession[] = [];
  readonly #project: TestProject;
  readonly #playing: Promise<void>[] = [];
  #isEnding = false;

  constructor(project: TestProject) {
    this.#project = project;
  }

  get sent(): number {
    return this.sessions.reduce((sum, { eventIds }) => sum + eventIds.length, 0);
  }

  /** Plays one session from now to the end. */
  stay(): void {
    this.#play(async () => {
      const session = await this.#open();
      while (!this.#isEnding) await this.#send([session]);
    });
  }

  /** Plays one short session after the other. */
  comeAndGo(): void {
    this.#play(async () => {
      while (!this.#isEnding) {
        const session = await this.#open({ isShort: true });
        for (let i = 0; i < REQUESTS_A_SHORT_SESSION; i++) await this.#send([session]);
      }
    });
  }

  /** A game server: its requests hold events of all its sessions in turn, and another one opens after the raise. */
  serve(sessions: number): void {
    this.#play(async () => {
      const served: PlayedSession[] = [];
      while (!this.#isEnding) {
        const wanted = this.era === 'after' ? 2 * sessions : sessions;
        if (served.length < wanted) served.push(await this.#open());
        await this.#send(served);
      }
    });
  }

  /** Resolves when every request is answered. @throws a player's error. */
  async end(): Promise<void> {
    this.#isEnding = true;
    await Promise.all(this.#playing);
  }

  #play(play: () => Promise<void>): void {
    const playing = play();
    // `end` reports it; an unhandled rejection would end the process.
    playing.catch(() => undefined);
    this.#playing.push(playing);
  }

  async #open({ isShort = false } = {}): Promise<PlayedSession> {
    const began = this.era;
    const id = randomUUID();
    await accepted(() => this.#project.request('POST', '/v1/ingest/sessions', { body: { id } }));
    const session = { id, isShort, opened: began === this.era ? began : 'between', eventIds: [] };
    this.sessions.push(session);
    return session;
  }

  async #send(sessions: readonly PlayedSession[]): Promise<void> {
    const body = Array.from({ length: EVENTS_A_REQUEST }, (_, i) =>
      sessions.map(({ id, eventIds }) => anEvent({ sessionId: id, payload: { n: eventIds.length + i } })),
    ).flat();
    const headers = { 'Idempotency-Key': aKey() };
    const answer = await accepted(() => this.#project.post(body, headers));
    const created: { id: string }[] = answer.json();
    for (const [i, { id }] of created.entries()) sessions[i % sessions.length]?.eventIds.push(id);
  }
}

/** Retries for as long as the answer asks for it. */
async function accepted(send: () => Promise<Answer>): Promise<Answer> {
  const answer = await eventually(send, ({ status }) => status !== 503, TAKEN_WITHIN_MS);
  if (answer.status === 201 || answer.status === 200) return answer;
  throw new Error(`answered ${answer.status}: ${answer.text()}`);
}
