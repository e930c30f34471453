/** What every projection's writer gets. */

import type { Store } from '@questlog/runtime/clickhouse/store';
import type { DeadLetters } from '@questlog/runtime/consumer/deadLetters';
import type { Codec } from '@questlog/runtime/registry/registry';

export interface WriterDeps<Message> {
  readonly store: Store;
  readonly codec: Codec<Message>;
  readonly deadLetters: DeadLetters;
  readonly logId: string;
  readonly partition: number;
  /** Of the topic. */
  readonly partitions: number;
  /** `ignored`: a record that is meant for others, or that changes nothing. */
  onOutcome(outcome: 'written' | 'repeated' | 'ignored' | 'dead', records: number): void;
}
