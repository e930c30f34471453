/** Simulates the players of one tenant. Each player sends one request after another until the test ends. */
import { randomUUID } from 'node:crypto';
import { aKey, anEvent, eventually, type TestProject } from '../e2e/builders.ts';
import type { Answer } from '../e2e/product.ts';

/** Period relative to the change of the spread. During `between`, some ingests do not have the new value yet. */
export type Era = 'before' | 'between' | 'after';

export interface PlayedSession {
  readonly id: string;
  /** Period in which the session was registered. */
  readonly opened: Era;
  /** True if the session ends after a small, fixed number of requests. */
  readonly isShort: boolean;
  /** Ids of the events in the order of the responses. The event at index n has `n` in its payload. */
  readonly eventIds: string[];
}

const EVENTS_PER_REQUEST = 5;
const REQUESTS_PER_SHORT_SESSION = 3;
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

  /** Starts a player that plays one session until the test ends. */
  stay(): void {
    this.#play(async () => {
      const session = await this.#open();
      while (!this.#isEnding) await this.#send([session]);
    });
  }

  /** Starts a player that plays short sessions, one after another. */
  comeAndGo(): void {
    this.#play(async () => {
      while (!this.#isEnding) {
        const session = await this.#open({ isShort: true });
        for (let i = 0; i < REQUESTS_PER_SHORT_SESSION; i++) await this.#send([session]);
      }
    });
  }

  /**
   * Starts a game server. Each request contains events of all its sessions. The server opens more sessions after the change of
   * the spread.
   */
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

  /** Resolves when every request has a response. @throws the error of a player. */
  async end(): Promise<void> {
    this.#isEnding = true;
    await Promise.all(this.#playing);
  }

  #play(play: () => Promise<void>): void {
    const playing = play();
    // Prevents an unhandled rejection. `end` throws the error.
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
    const body = Array.from({ length: EVENTS_PER_REQUEST }, (_, i) =>
      sessions.map(({ id, eventIds }) => anEvent({ sessionId: id, payload: { n: eventIds.length + i } })),
    ).flat();
    const headers = { 'Idempotency-Key': aKey() };
    const answer = await accepted(() => this.#project.post(body, headers));
    const created: { id: string }[] = answer.json();
    for (const [i, { id }] of created.entries()) sessions[i % sessions.length]?.eventIds.push(id);
  }
}

/** Retries a request while its response is a 503. */
async function accepted(send: () => Promise<Answer>): Promise<Answer> {
  const answer = await eventually(send, ({ status }) => status !== 503, TAKEN_WITHIN_MS);
  if (answer.status === 201 || answer.status === 200) return answer;
  throw new Error(`answered ${answer.status}: ${answer.text()}`);
}
