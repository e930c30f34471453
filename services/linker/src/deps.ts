/** Dependencies of the linker and of its partitions. */
import type { DeadLetters } from '@questlog/runtime/consumer/deadLetters';
import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import type { watchProjections } from '@questlog/runtime/log/projection/projection';
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
  /** Adds all sessions that have reports to the Bloom filter. Resolves with false if the sessions do not fit. */
  load(): Promise<boolean>;
}

export interface ActivePartition {
  problem(): string | undefined;
  /** Number of reports that are matched with events, and number of events that these reports name. */
  readonly open: Readonly<Record<'reports' | 'eventIds', number>>;
}

export interface PartitionDeps extends LinkerDeps {
  readonly codecs: {
    readonly events: Codec<EventsRecord>;
    readonly reports: Codec<ReportLink>;
    readonly links: Codec<LinkedEvent>;
    readonly state: Codec<LinkerEntry>;
  };
  readonly partitions: number;
  readonly deadLettersFor: (signal: AbortSignal) => DeadLetters;
  readonly sessions: SharedSessions;
  readonly projections: ReturnType<typeof watchProjections>;
  /**
   * Limits how many partitions restore their state at the same time, because a restore keeps changelog records in memory.
   */
  readonly queueRestore: <T>(work: () => Promise<T>) => Promise<T>;
  readonly activePartitions: Map<number, ActivePartition>;
}
