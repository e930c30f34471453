/**
 * Repeats the latest commit of a partition, because an older commit request can still arrive at the Kafka broker. The older
 * request would move the group back to an older offset.
 */

export interface LastCommit {
  resend(): Promise<void>;
  isOwned(): boolean;
}

const RESEND_INTERVAL_MS = 3_000;
const MAX_REQUEST_AGE_MS = 600_000;

export class LateCommits {
  readonly #last = new Map<string, LastCommit>();
  readonly #lateUntilMs = new Map<string, number>();
  readonly #isOutcomeUnknown: (error: unknown) => boolean;

  constructor(isOutcomeUnknown: (error: unknown) => boolean) {
    this.#isOutcomeUnknown = isOutcomeUnknown;
  }

  started(partitionName: string, commit: LastCommit): void {
    this.#last.set(partitionName, commit);
  }

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
