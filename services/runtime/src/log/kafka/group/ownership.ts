/** The time for which one member owns one partition: from its assignment until it is lost, and never again after. */
import { Fenced } from '../../../process/errors.ts';
import type { Generation } from './generations.ts';
import type { CommitterView } from './groupCommits.ts';

export interface OwnershipDeps {
  /** Named in messages, without the prefix. */
  readonly group: string;
  generation(): Generation | undefined;
  changed(waitMs: number): Promise<void>;
}

export class Ownership implements CommitterView {
  readonly partition: number;
  readonly #of: OwnershipDeps;
  readonly #revoked = new AbortController();
  #isFenced = false;

  constructor(partition: number, of: OwnershipDeps) {
    this.partition = partition;
    this.#of = of;
  }

  get signal(): AbortSignal {
    return this.#revoked.signal;
  }

  /** Asks the owner to finish; it may still commit what it has done. */
  revoke(): void {
    this.#revoked.abort();
  }

  /** Nothing can be committed any more. */
  fence(): void {
    this.#isFenced = true;
    this.#revoked.abort();
  }

  checkOwned(): void {
    if (!this.#isFenced) return;
    throw new Fenced(`${this.#of.group} lost partition ${this.partition}; nothing was committed`);
  }

  generation(): Generation | undefined {
    return this.#of.generation();
  }

  changed(waitMs: number): Promise<void> {
    return this.#of.changed(waitMs);
  }
}
