/** Dependencies of the linker and of one partition. */
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
  /** Adds all sessions that have reports in ClickHouse to the filter. Resolves with false if there are too many sessions. */
  load(): Promise<boolean>;
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
  /** Returns the UUID of the table with this name. The UUID is cached for at most one second. */
  readonly tableUuid: (table: string) => Promise<string>;
  /** Limits the number of concurrent restores, because each restore keeps records in memory that were read ahead. */
  readonly queueRestore: <T>(work: () => Promise<T>) => Promise<T>;
  readonly activePartitions: Map<number, { problem(): string | undefined }>;
}
