/**
 * Runs many processes on one thread with simulated time. A step of a process runs until it waits for something outside. The seed
 * chooses the next step, its time, and its faults. A dead process never receives the results that it waits for.
 */
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import { Dice } from '../dice.ts';
import { StepQueue } from './stepQueue.ts';
import { nextRealTurn } from './virtualTime.ts';

export interface Process {
  readonly name: string;
  isAlive: boolean;
  /** Time until which the process is stopped, as by SIGSTOP. */
  stoppedUntilMs: number;
}

export interface Step {
  readonly by: Process;
  readonly what: string;
  readonly run: () => void;
}

/** Shares of external requests that fail in different ways. */
export interface Troubles {
  /** Request is not executed, and the caller gets an error. */
  readonly refused: number;
  /** Request is executed, and the caller gets an error. */
  readonly unanswered: number;
  /** Request is executed after the caller got an error. */
  readonly late: number;
  /** Request is executed and answered after a long time. */
  readonly slow: number;
  /** Insert whose token is recorded without rows; the caller gets an error. */
  readonly burnt: number;
}

export const NO_TROUBLES: Troubles = { refused: 0, unanswered: 0, late: 0, slow: 0, burnt: 0 };

export interface Request<T> {
  readonly by: Process;
  readonly what: string;
  /** Requests with the same line are executed in order. */
  readonly line?: string;
  /** True if the request may be executed after the caller got an error. */
  readonly mayBeLate?: boolean;
  work(): T;
}

/** Maximum steps, ten times the steps of the longest run. */
const MAX_STEPS = 200_000;
const SLOW_MS = 4_000;
const LATE_MS = 20_000;
/**
 * Time after which a request has been executed or never will be, including requests of a process that was stopped for two
 * sessions.
 */
export const LATEST_MS = 2 * LATE_MS + 5_000;

export class World {
  readonly seed: number;
  readonly dice: Dice;
  readonly findings: string[] = [];
  /** Simulated time since the start, which no process can change. */
  nowMs = 0;
  troubles = NO_TROUBLES;
  steps = 0;
  /** Stands for the log, ClickHouse, and the network. */
  readonly outside: Process = { name: 'world', isAlive: true, stoppedUntilMs: 0 };
  /** Process whose step is running. */
  current = this.outside;
  /** Time of the processes' clocks at the start. */
  #clockMs = Date.UTC(2026, 10, 21, 12);
  readonly #queue = new StepQueue<Step>();
  readonly #lastOfLine = new Map<string, number>();
  readonly #trace: ((line: string) => void) | undefined;

  constructor(seed: number, trace?: (line: string) => void) {
    this.seed = seed;
    this.dice = new Dice(seed);
    this.#trace = trace;
  }

  /** Clock of every process. */
  readonly clock = { now: (): number => this.#clockMs + Math.floor(this.nowMs) };

  moveClocks(millis: number): void {
    this.#clockMs += millis;
  }

  /** Returns a function that cancels the step. */
  in(delayMs: number, by: Process, what: string, run: () => void): () => void {
    return this.#queue.add(inTicks(this.nowMs + Math.max(0, delayMs)), { by, what, run });
  }

  /** Writes to the trace. */
  note(what: string): void {
    this.#trace?.(`${this.nowMs.toFixed(1)} ${this.current.name}: ${what}`);
  }

  /** Sends a request of a process to the outside: executed after a delay, answered after another delay. */
  ask<T>({ by, what, line, mayBeLate = false, work }: Request<T>): Promise<T> {
    const { dice } = this;
    const fate = this.#fate(mayBeLate);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    // The caller may be dead, so a rejection must not be unhandled.
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

  /** Runs the steps that are due until the time, or until `isOver`. */
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
    if (++this.steps > MAX_STEPS) this.findings.push(`the run does not end: ${what} of ${by.name}`);
    this.note(what);
    try {
      run();
    } catch (error) {
      this.findings.push(`${by.name} failed in ${what}: ${error instanceof Error ? error.stack : error}`);
    }
    // Continues until the process waits for something outside.
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

/** Rounds to units whose sums and differences are exact. Otherwise a wait could be too short to let time pass. */
function inTicks(ms: number): number {
  return Math.ceil(ms * 8) / 8;
}
