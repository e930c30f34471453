/** A row of the campaign: a fault, and how often it is tried. */
import type { ServiceName } from '../../cluster/deployment.ts';
import type { Trial } from '../../cluster/trial.ts';
import type { StackCommands, StackEngines } from '../../stack/stackCommands.ts';
import type { Random } from '../seeded.ts';

/** Among the counts of a run, what its machine could do; the load is half of it. */
export const PEAK = 'requests a second at the peak';

export interface Row {
  /** As `--row` takes it. */
  readonly name: string;
  /** What happens, as a sentence of the page. */
  readonly does: string;
  /** Of the long form; the short one tries a row once, if at all. */
  readonly runs: number;
  /** Of the fault alone, where that is minutes. */
  readonly lastsMs?: number;
  /** Requests that are under way may stay without an answer. */
  readonly cutsOff?: true;
  /** What the deployment stands on; without one, the stack itself. The short form tries rows of the same ground in a row. */
  readonly ground?: (own: OwnEngines) => Promise<Ground>;
  /** Plants the fault under load, and returns when everything that it broke is whole again. */
  readonly plant?: (site: Site) => Promise<Planted>;
  /** Instead: tries it on a product of its own. */
  readonly alone?: (chances: Chances) => Promise<Held>;
}

/** A stack that may be broken, of three brokers. */
export interface OwnEngines {
  readonly engines: StackEngines;
  readonly stack: StackCommands;
}

export interface Ground {
  readonly engines: StackEngines;
  /** Settings of all services. */
  readonly env?: Readonly<Record<string, string>>;
  readonly services?: readonly ServiceName[];
  /** The file that starts them, of another version. */
  readonly entry?: string;
  /** Of the clocks of services and games, where they are not those of this machine. */
  readonly shiftMs?: number;
  /** When a month ends by those, by this machine's clock. */
  readonly endsAtMs?: number;
  end(): Promise<void>;
}

/** What a fault is planted in: a deployment under load. */
export interface Site extends OwnEngines {
  readonly trial: Trial;
  readonly ground: Ground | undefined;
  /** All of a run's chances, but for the load's own. */
  readonly random: Random;
  readonly isShort: boolean;
  /** Lets the load go on for so long: as a rule a drawn time. */
  wait(millis: number): Promise<void>;
}

export type Chances = Pick<Site, 'random' | 'isShort' | 'wait'>;

/** What came of a run, but for its time. */
export interface Held {
  /** What is wrong, as sentences; none: everything is as it must be. */
  readonly findings: readonly string[];
  /** What the tables held at the end, all of it audited. */
  readonly events: number;
  readonly links: number;
  /** Answers of 503, and requests without an answer. */
  readonly refused: number;
  readonly unanswered: number;
  /** The longest time from the end of a fault until everything of before it was processed. */
  readonly drainSeconds: number;
  readonly counts: Readonly<Record<string, number>>;
}

export interface Planted {
  /** What was done and what was caught, by name: the page adds them up. */
  readonly counts: Readonly<Record<string, number>>;
  /** What must be true of it once everything is processed; sentences of what is not. Services still run. */
  check?(): Promise<string[]>;
}

/** A row cannot be tried on this machine, which is no failure. */
export class Lacking extends Error {}
