/** Logs the start and the end of an outage one time each, even if many attempts fail. */
import { messageOf } from '../../../process/errors.ts';
import type { Fields, Logger } from '../../../process/logger.ts';

export class Outage {
  readonly #logger: Logger;
  readonly #event: string;
  readonly #fields: Fields;
  readonly #failing = new Set<string>();
  #sinceMs = 0;

  /** @param event the prefix of two event names in the program's log: `<event>_interrupted` and `<event>_resumed`. */
  constructor(logger: Logger, event: string, fields: Fields) {
    this.#logger = logger;
    this.#event = event;
    this.#fields = fields;
  }

  failed(name: string, error?: unknown): void {
    if (this.#failing.size === 0) {
      this.#sinceMs = performance.now();
      this.#logger.warn(`${this.#event}_interrupted`, { ...this.#fields, cause: messageOf(error) });
    }
    this.#failing.add(name);
  }

  recovered(name: string): void {
    if (!this.#failing.delete(name) || this.#failing.size > 0) return;
    const outageMs = Math.round(performance.now() - this.#sinceMs);
    this.#logger.info(`${this.#event}_resumed`, { ...this.#fields, outageMs });
  }
}
