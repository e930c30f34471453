/** Defines a row of the campaign: a fault and the number of its runs. */
import type { ServiceName } from '../../cluster/deployment.ts';
import type { Trial } from '../../cluster/trial.ts';
import type { ClusterEngines } from '../../e2e/cluster.ts';
import type { StackCommands, StackEngines } from '../../stack/stackCommands.ts';
import type { Random } from '../seeded.ts';

/** Count of a run: peak throughput of the machine. The load is half of the peak. */
export const PEAK = 'requests a second at the peak';

export interface Row {
  /** Name for `--row`. */
  readonly name: string;
  /** Description of the fault, a sentence of the page. */
  readonly does: string;
  /** Number of runs of the long form. The short form runs a row once, or not at all. */
  readonly runs: number;
  /** Duration of the fault. Undefined if the fault takes less than a minute. */
  readonly lastsMs?: number;
  /** True if the fault makes the deployment permanently larger, so that the row cannot share a deployment. */
  readonly grows?: true;
  /** True if requests may stay without a response. */
  readonly cutsOff?: true;
  /**
   * Prepares the environment of the deployment. Undefined if the deployment uses the stack directly. The short form runs rows of
   * the same environment one after the other.
   */
  readonly ground?: (own: OwnEngines) => Promise<Ground>;
  /** Injects the fault under load, and returns after the recovery. */
  readonly plant?: (site: Site) => Promise<Planted>;
  /** Runs the row on a separate product instead. */
  readonly alone?: (chances: Chances) => Promise<Held>;
}

/** Stack of three brokers that may be broken. */
export interface OwnEngines {
  readonly engines: StackEngines;
  readonly stack: StackCommands;
}

export interface Ground {
  readonly engines: StackEngines & Pick<ClusterEngines, 'clickhouseCluster'>;
  /** Settings of all services. */
  readonly env?: Readonly<Record<string, string>>;
  readonly services?: readonly ServiceName[];
  /** File that starts the services, for another version. */
  readonly entry?: string;
  /** Offset of the clocks of services and games, in milliseconds. Undefined if they use this machine's clock. */
  readonly shiftMs?: number;
  /** False if the games send each lenient request only once. */
  readonly repeatsLenient?: boolean;
  /** Time at which a month ends by those clocks, by this machine's clock. */
  readonly endsAtMs?: number;
  end(): Promise<void>;
}

/** Deployment under load for a fault. */
export interface Site extends OwnEngines {
  readonly trial: Trial;
  readonly ground: Ground | undefined;
  /** Random numbers of the run, except for the load's. */
  readonly random: Random;
  readonly isShort: boolean;
  /** Continues the load for a time, usually a random one. */
  wait(millis: number): Promise<void>;
  /** Reports progress, so that a run that does not end shows its last step. */
  say(line: string): void;
}

export type Chances = Pick<Site, 'random' | 'isShort' | 'wait' | 'say'>;

/** Result of a run, without its duration. */
export interface Held {
  /** Findings as sentences; empty if the run passed. */
  readonly findings: readonly string[];
  /** Number of audited events in the tables that the run added. */
  readonly events: number;
  readonly links: number;
  /** Number of 503 responses and of requests without a response. */
  readonly refused: number;
  readonly unanswered: number;
  /** Maximum time from the end of a fault until all earlier records were processed. */
  readonly drainSeconds: number;
  readonly counts: Readonly<Record<string, number>>;
}

export interface Planted {
  /** Counts by name, which the page sums. */
  readonly counts: Readonly<Record<string, number>>;
  /** Checks a condition after everything is processed, while the services run. @returns findings as sentences */
  check?(): Promise<string[]>;
}

/** Thrown if a row cannot run on this machine, which is not a failure. */
export class Lacking extends Error {}
