/** Tries the runs of one deployment in a separate process with a time limit. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { StackEngines } from '../../../stack/stackCommands.ts';
import { Lacking } from '../row.ts';
import type { Outcome } from '../tryRows.ts';

export interface ToTry {
  readonly engines: StackEngines;
  /** Data folder of the stack. */
  readonly dataDir: string;
  /** Runs that can share a deployment, each with the names of its rows. */
  readonly runs: readonly { readonly rows: readonly string[]; readonly seed: number }[];
  readonly isShort: boolean;
}

/** Message of the process. `broke` is the cause if the process cannot try the next run. */
export type Told =
  | { readonly said: string }
  | { readonly outcome: Outcome }
  | { readonly lacking: string }
  | { readonly broke: string };

/** Time limit for the removal of a deployment after its last run. */
const REMOVED_WITHIN_MS = 120_000;
const RUN = fileURLToPath(new URL('./oneRun.ts', import.meta.url));

interface Watch {
  say(line: string): void;
  report(outcome: Outcome): void;
}

/**
 * Reports an outcome for each run until a run fails. A run that breaks off, exceeds the time limit, or ends with its process is
 * reported as failed.
 * @param withinMs time limit of a run. @returns the number of reported outcomes, at least one.
 * @throws Lacking if the row cannot run on this machine
 */
export async function runInOwnProcess(
  toTry: ToTry,
  withinMs: number,
  { say, report }: Watch,
): Promise<number> {
  let begunMs = performance.now();
  const seconds = () => Math.round((performance.now() - begunMs) / 100) / 10;
  const child = fork(RUN);
  const ended = once(child, 'exit');
  let [last, why]: [string, string] = ['it was started', 'its process died'];
  let [reported, isFailed] = [0, false];
  let lacking: string | undefined;
  let limit = setTimeout(() => {
    why = `it did not end within ${withinMs / 1_000} s`;
    child.kill();
  }, withinMs);
  const finish = (outcome: Outcome): void => {
    report(outcome);
    reported += 1;
    isFailed = outcome.findings.length > 0;
    begunMs = performance.now();
    if (!isFailed && reported < toTry.runs.length) return void limit.refresh();
    clearTimeout(limit);
    limit = setTimeout(() => child.kill(), REMOVED_WITHIN_MS);
  };
  child.on('message', (told: Told) => {
    if ('outcome' in told) finish(told.outcome);
    else if ('lacking' in told) lacking = told.lacking;
    else if ('broke' in told) why = `it broke off: ${told.broke}`;
    else {
      last = told.said;
      say(`${seconds()} s: ${last}`);
    }
  });
  child.send(toTry);
  await ended;
  if (lacking !== undefined) throw new Lacking(lacking);
  if (!isFailed && reported < toTry.runs.length)
    finish({ ...NOTHING, findings: [`${why}; the last of it: ${last}`], seconds: seconds() });
  clearTimeout(limit);
  return reported;
}

const NOTHING = { events: 0, links: 0, refused: 0, unanswered: 0, drainSeconds: 0, counts: {} };
