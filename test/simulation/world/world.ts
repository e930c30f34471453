/**
 * Many processes on one thread, in a time of its own: each step of a process runs until it waits for something outside, and
 * a seed decides what comes next, when, and what goes wrong. Whatever a dead process still waits for never comes.
 */
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { Dice } from '../dice.ts';
import { StepQueue } from './stepQueue.ts';
import { nextRealTurn } from './virtualTime.ts';

export interface Process {
  readonly name: string;
  isAlive: boolean;
  /** Stopped, as by SIGSTOP, until then: its steps wait. */
  stoppedUntilMs: number;
}

export interface Step {
  readonly by: Process;
  readonly what: string;
  readonly run: () => void;
}

/** The shares of requests to something outside that go wrong, each in its way. */
export interface Troubles {
  /** Not done, and told so. */
  readonly refused: number;
  /** Done, and told that it was not. */
  readonly unanswered: number;
  /** Told that it was not, and done after that. */
  readonly late: number;
  /** Done and told, after long. */
  readonly slow: number;
  /** Of inserts alone: the token is noted, the rows are gone, and it is told that they are not there. */
  readonly burnt: number;
}

export const NO_TROUBLES: Troubles = { refused: 0, unanswered: 0, late: 0, slow: 0, burnt: 0 };

export interface Request<T> {
  readonly by: Process;
  readonly what: string;
  /** Requests of one line are done in the order in which they were made. */
  readonly line?: string;
  /** May it be done after it was told that it was not? */
  readonly mayBeLate?: boolean;
  work(): T;
}

/** Ten times what the longest run takes. */
const MAX_STEPS = 200_000;
const SLOW_MS = 4_000;
const LATE_MS = 20_000;
/** Whatever was asked is done by then, or never: also by who was stopped for two sessions, and asks when it wakes. */
export const LATEST_MS = 2 * LATE_MS + 5_000;

export class World {
  readonly seed: number;
  readonly dice: Dice;
  readonly findings: string[] = [];
  /** Since the start, as no process can change it. */
  nowMs = 0;
  troubles = NO_TROUBLES;
  steps = 0;
  /** Of what is outside the processes: the log, ClickHouse, the network. */
  readonly outside: Process = { name: 'world', isAlive: true, stoppedUntilMs: 0 };
  /** Whose step runs now. */
  current = this.outside;
  /** What the processes' clocks showed at the start. */
  #clockMs = Date.UTC(2026, 10, 21, 12);
  readonly #queue = new StepQueue<Step>();
  readonly #lastOfLine = new Map<string, number>();
  readonly #trace: ((line: string) => void) | undefined;

  constructor(seed: number, trace?: (line: string) => void) {
    this.seed = seed;
    this.dice = new Dice(seed);
    this.#trace = trace;
  }

  /** The clock of every process. */
  readonly clock = { now: (): number => this.#clockMs + Math.floor(this.nowMs) };

  moveClocks(millis: number): void {
    this.#clockMs += millis;
  }

  /** @returns what takes it back. */
  in(delayMs: number, by: Process, what: string, run: () => void): () => void {
    return this.#queue.add(inTicks(this.nowMs + Math.max(0, delayMs)), { by, what, run });
  }

  /** Told to whoever looks at a trace. */
  note(what: string): void {
    this.#trace?.(`${this.nowMs.toFixed(1)} ${this.current.name}: ${what}`);
  }

  /** A request of a process to what is outside: done a while after it was made, told a while after that. */
  ask<T>({ by, what, line, mayBeLate = false, work }: Request<T>): Promise<T> {
    const { dice } = this;
    const fate = this.#fate(mayBeLate);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    // Whoever asked may be gone.
    promise.catch(() => {});
    const outlives = dice.chance(0.5);
    const travelMs = dice.between(0, 30) / 10 + (fate === 'slow' ? dice.between(0, SLOW_MS) : 0);
    const told = (why: string) => (): void => reject(new Unavailable(`${what} ${why}`));
    const doneMs = this.#inLine(line, fate === 'late' ? travelMs + dice.between(0, LATE_MS) : travelMs);
    if (fate === 'late') {
      this.in(travelMs, by, `${what}: late`, told('was not answered in time'));
    }
    this.in(doneMs, this.outside, `${by.name}: ${what}`, () => {
      if (!by.isAlive && !outlives) return;
      if (fate === 'refused') return void this.in(1, by, `${what}: refused`, told('was refused'));
      let tell: () => void;
      let outcome: string = fate;
      try {
        const done = work();
        tell = () => resolve(done);
      } catch (error) {
        outcome = `failed: ${messageOf(error)}`;
        tell = () => reject(error);
      }
      if (fate === 'unanswered') tell = told('was done, and the answer was lost');
      if (fate !== 'late') this.in(dice.between(0, 20) / 10, by, `${what}: ${outcome}`, tell);
    });
    return promise;
  }

  /** Runs what is due until then, or until `isOver`. */
  async play(untilMs: number, isOver: () => boolean = () => false): Promise<void> {
    while (!isOver() && this.findings.length === 0) {
      const next = this.#queue.takeBefore(untilMs);
      if (next === undefined) break;
      this.nowMs = Math.max(this.nowMs, next.atMs);
      await this.#take(next.item);
    }
    this.nowMs = Math.max(this.nowMs, isOver() ? 0 : untilMs);
  }

  async #take(step: Step): Promise<void> {
    const { by, what, run } = step;
    if (!by.isAlive) return;
    if (by.stoppedUntilMs > this.nowMs) {
      this.#queue.add(by.stoppedUntilMs, step);
      return;
    }
    this.current = by;
    if (++this.steps > MAX_STEPS) this.findings.push(`it does not come to an end: ${what} of ${by.name}`);
    this.note(what);
    try {
      run();
    } catch (error) {
      this.findings.push(`${by.name} failed in ${what}: ${error instanceof Error ? error.stack : error}`);
    }
    // All that follows without waiting for something outside.
    if (by !== this.outside) await nextRealTurn();
    this.current = this.outside;
  }

  #fate(mayBeLate: boolean): Exclude<keyof Troubles, 'burnt'> | 'done' {
    const { refused, unanswered, late, slow } = this.troubles;
    let left = this.dice.between(0, 9_999) / 10_000;
    for (const [fate, share] of [
      ['refused', refused],
      ['unanswered', unanswered],
      ['slow', slow],
    ] as const) {
      left -= share;
      if (left < 0) return fate;
    }
    return mayBeLate && left - late < 0 ? 'late' : 'done';
  }

  #inLine(line: string | undefined, delayMs: number): number {
    if (line === undefined) return delayMs;
    const atMs = Math.max(this.nowMs + delayMs, this.#lastOfLine.get(line) ?? 0);
    this.#lastOfLine.set(line, atMs);
    return atMs - this.nowMs;
  }
}

/** Sums and differences of such times are exact, or a wait could be too short to let time pass. */
function inTicks(ms: number): number {
  return Math.ceil(ms * 8) / 8;
}
