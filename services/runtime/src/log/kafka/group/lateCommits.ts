/**
 * A commit of unknown outcome may reach the coordinator late, behind newer ones of the same generation. The group then stands
 * at the older offset until the next commit: for ever where that waits for somebody who waits for the newer one. So what was
 * committed last is committed again, as long as such a request may be on its way and nothing newer is committed anyway.
 */

export interface LastCommit {
  /** Sends it once more. @throws what an attempt at it throws. */
  resend(): Promise<void>;
  isOwned(): boolean;
}

const RESEND_INTERVAL_MS = 3_000;
/** A request outlives its connection in what the system has buffered of it, or before a broker that stands still. */
const MAX_REQUEST_AGE_MS = 600_000;

export class LateCommits {
  /** By place. */
  readonly #last = new Map<string, LastCommit>();
  readonly #lateUntilMs = new Map<string, number>();
  readonly #isOutcomeUnknown: (error: unknown) => boolean;

  /** @param isOutcomeUnknown whether an attempt that failed so may have been, or may still be, done. */
  constructor(isOutcomeUnknown: (error: unknown) => boolean) {
    this.#isOutcomeUnknown = isOutcomeUnknown;
  }

  /** To be told before each commit. */
  started(partitionName: string, commit: LastCommit): void {
    this.#last.set(partitionName, commit);
  }

  /** To be told of each attempt that failed. */
  failed(partitionName: string, error: unknown): void {
    if (!this.#isOutcomeUnknown(error)) return;
    if (!this.#lateUntilMs.has(partitionName)) this.#watch(partitionName);
    this.#lateUntilMs.set(partitionName, performance.now() + MAX_REQUEST_AGE_MS);
  }

  #watch(partitionName: string): void {
    let previous: LastCommit | undefined;
    const timer = setInterval(() => {
      const last = this.#last.get(partitionName);
      const isOver = performance.now() > (this.#lateUntilMs.get(partitionName) ?? 0);
      if (isOver || last?.isOwned() !== true) {
        clearInterval(timer);
        this.#lateUntilMs.delete(partitionName);
      } else if (last === previous) {
        last.resend().catch((error: unknown) => this.failed(partitionName, error));
      }
      previous = last;
    }, RESEND_INTERVAL_MS);
    timer.unref();
  }
}
