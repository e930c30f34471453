/**
 * A commit of unknown outcome may reach the coordinator late, behind newer ones of the same generation. The group then stands
 * at the older offset until the next commit: for ever where that waits for somebody who waits for the newer one. So what was
 * committed last is committed again, as long as such a request may be on its way and nothing newer is committed anyway.
 */

export interface LastCommit {
  /** Sends it once more. @throws what an attempt at it throws. */
  again(): Promise<void>;
  isOwned(): boolean;
}

const AGAIN_MS = 3_000;
/** A request outlives its connection in what the system has buffered of it, or before a broker that stands still. */
const LATE_MS = 600_000;

export class LateCommits {
  /** By place. */
  readonly #last = new Map<string, LastCommit>();
  readonly #lateUntilMs = new Map<string, number>();
  readonly #isUnknown: (error: unknown) => boolean;

  /** @param isUnknown whether an attempt that failed so may have been, or may still be, done. */
  constructor(isUnknown: (error: unknown) => boolean) {
    this.#isUnknown = isUnknown;
  }

  /** To be told before each commit. */
  begun(place: string, commit: LastCommit): void {
    this.#last.set(place, commit);
  }

  /** To be told of each attempt that failed. */
  failed(place: string, error: unknown): void {
    if (!this.#isUnknown(error)) return;
    if (!this.#lateUntilMs.has(place)) this.#watch(place);
    this.#lateUntilMs.set(place, performance.now() + LATE_MS);
  }

  #watch(place: string): void {
    let before: LastCommit | undefined;
    const timer = setInterval(() => {
      const last = this.#last.get(place);
      const isOver = performance.now() > (this.#lateUntilMs.get(place) ?? 0);
      if (isOver || last?.isOwned() !== true) {
        clearInterval(timer);
        this.#lateUntilMs.delete(place);
      } else if (last === before) {
        last.again().catch((error: unknown) => this.failed(place, error));
      }
      before = last;
    }, AGAIN_MS);
    timer.unref();
  }
}
