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
  /** Adds all sessions with reports that ClickHouse has. Resolves with false if there are too many. */
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
  /** Returns the UUID of the table with this name, at most one second old. */
  readonly tableUuid: (table: string) => Promise<string>;
  /** Runs a restore in a queue, because each restore keeps the records that it has read ahead in memory. */
  readonly queueRestore: <T>(work: () => Promise<T>) => Promise<T>;
  readonly activePartitions: Map<number, { problem(): string | undefined }>;
}
