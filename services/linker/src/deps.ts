/** The dependencies of the linker and of one of its partitions. */
import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import type { Codec } from '@questlog/runtime/registry/registry';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type { LinkerEntry } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { LinkerBounds } from './core/linkerState.ts';
import type { LinkerMetrics } from './metrics.ts';

export interface LinkerDeps extends ServiceDeps {
  readonly bounds: LinkerBounds;
  readonly metrics: LinkerMetrics;
}

export interface PartitionDeps extends LinkerDeps {
  readonly codecs: {
    readonly events: Codec<EventsAccepted>;
    readonly reports: Codec<ReportLink>;
    readonly links: Codec<LinkedEvent>;
    readonly state: Codec<LinkerEntry>;
  };
  /** The partitions of each joined topic. */
  readonly partitions: number;
  /** The partitions that this process links now. */
  readonly watched: Map<number, { problem(): string | undefined }>;
}
