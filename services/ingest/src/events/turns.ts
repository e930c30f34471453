/**
 * Shares the event loop: a turn of it works on so many bytes of bodies, and what is beyond waits for a later turn. Ingest
 * shares its process with the projector, the embedded ClickHouse and reads, each step of which takes a turn: when eight
 * large bodies are worked on in one, those crawl, and the projection falls behind for as long as the load lasts.
 */

/** Worked on within some milliseconds. A turn works on one body at least, however large; small ones share it. */
const MAX_BYTES_A_TURN = 64 * 1024;

interface Waiting {
  readonly bytes: number;
  start(): void;
}

export class Turns {
  readonly #waiting: Waiting[] = [];
  #bytesLeft = MAX_BYTES_A_TURN;
  #isScheduled = false;

  /** Resolves when it is the turn of a body of this size, in the order of the calls. */
  take(bytes: number): Promise<void> {
    this.#schedule();
    if (this.#waiting.length === 0 && this.#bytesLeft > 0) {
      this.#bytesLeft -= bytes;
      return Promise.resolve();
    }
    return new Promise((start) => {
      this.#waiting.push({ bytes, start });
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#bytesLeft = MAX_BYTES_A_TURN;
      while (this.#bytesLeft > 0) {
        const next = this.#waiting.shift();
        if (next === undefined) return;
        this.#bytesLeft -= next.bytes;
        next.start();
      }
      this.#schedule();
    });
  }
}
