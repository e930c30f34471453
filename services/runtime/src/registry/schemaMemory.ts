/**
 * Schemas by id, asked for once: a known one never changes, and an unknown one is unknown for a while, so that a flood of
 * records that name it is not a flood of requests. A failure is not remembered.
 */
import type { Clock } from '../process/clock.ts';
import { BoundedMap } from './boundedMap.ts';

/** Some kilobytes each. Apart from the unknown ones, which anybody who writes garbage can make. */
export const MAX_KNOWN_SCHEMAS = 1_000;
export const MAX_UNKNOWN_IDS = 10_000;
/** After that an id may have come to be: of a writer that was upgraded before this process. */
export const UNKNOWN_FOR_MS = 60_000;

export class SchemaMemory {
  readonly #lookUp: (id: number) => Promise<string | undefined>;
  readonly #clock: Clock;
  readonly #known = new BoundedMap<number, string>(MAX_KNOWN_SCHEMAS);
  /** Until when, milliseconds since the epoch. */
  readonly #unknown = new BoundedMap<number, number>(MAX_UNKNOWN_IDS);
  readonly #running = new Map<number, Promise<string | undefined>>();

  constructor(lookUp: (id: number) => Promise<string | undefined>, clock: Clock) {
    this.#lookUp = lookUp;
    this.#clock = clock;
  }

  /** The schema's text, or undefined where there is none. Rejects as the look-up does. */
  async get(id: number): Promise<string | undefined> {
    const known = this.#known.get(id);
    if (known !== undefined || this.#isUnknown(id)) return known;
    let running = this.#running.get(id);
    if (running === undefined) {
      running = this.#ask(id).finally(() => this.#running.delete(id));
      this.#running.set(id, running);
    }
    return await running;
  }

  /** Also in the past when the clock was set back: never longer than the time that it is for. */
  #isUnknown(id: number): boolean {
    const leftMs = (this.#unknown.get(id) ?? 0) - this.#clock.now();
    return leftMs > 0 && leftMs <= UNKNOWN_FOR_MS;
  }

  async #ask(id: number): Promise<string | undefined> {
    const schema = await this.#lookUp(id);
    if (schema === undefined) this.#unknown.set(id, this.#clock.now() + UNKNOWN_FOR_MS);
    else this.#known.set(id, schema);
    return schema;
  }
}
