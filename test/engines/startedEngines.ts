/** The engines that a provider has started. */
import type { Part } from './choice.ts';

export interface StartedEngines {
  /** A value for each part that was asked for. */
  readonly addresses: Readonly<Partial<Record<Part, string>>>;
  readonly stackDir?: string;
  stop(): Promise<void>;
}
