/** The dependencies of the linker and of one of its partitions. */
import type { DeadLetters } from '@questlog/runtime/consumer/deadLetters';
import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import type { Codec } from '@questlog/runtime/registry/registry';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type { LinkerEntry } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { LinkerBounds } from './core/linkerState.ts';
import type { SessionFilter } from './core/sessionFilter.ts';
import type { LinkerMetrics } from './metrics.ts';

export interface LinkerDeps extends ServiceDeps {
  readonly bounds: LinkerBounds;
  readonly metrics: LinkerMetrics;
}

interface SharedSessions {
  readonly filter: SessionFilter;
  /** Adds all that ClickHouse knows by now. False: there are too many. */
  load(): Promise<boolean>;
}

export interface PartitionDeps extends LinkerDeps {
  readonly codecs: {
    readonly events: Codec<EventsRecord>;
    readonly reports: Codec<ReportLink>;
    readonly links: Codec<LinkedEvent>;
    readonly state: Codec<LinkerEntry>;
  };
  /** The partitions of each joined topic. */
  readonly partitions: number;
  /** Those of one partition. */
  readonly deadLettersFor: (signal: AbortSignal) => DeadLetters;
  /** What all partitions of the process share. */
  readonly sessions: SharedSessions;
  /** Which table has the name now, as of a second ago at most. */
  readonly tableUuid: (table: string) => Promise<string>;
  /** Runs a restore when it is its turn: each reads ahead and holds what it has read. */
  readonly queueRestore: <T>(work: () => Promise<T>) => Promise<T>;
  /** The partitions that this process links now. */
  readonly activePartitions: Map<number, { problem(): string | undefined }>;
}
