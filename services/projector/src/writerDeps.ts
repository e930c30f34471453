/** What every projection's writer gets. */
import type { DeadLetters } from '@questlog/runtime/consumer/deadLetters';
import type { Codec } from '@questlog/runtime/registry/registry';
import type { Store } from '@questlog/runtime/store/store';

export interface WriterDeps<Message> {
  readonly store: Store;
  readonly codec: Codec<Message>;
  readonly deadLetters: DeadLetters;
  readonly logId: string;
  readonly partition: number;
  onOutcome(outcome: 'written' | 'repeated' | 'dead', records: number): void;
}
