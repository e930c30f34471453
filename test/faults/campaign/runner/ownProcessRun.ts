/** Runs rows in a separate process with a time limit. */
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
  readonly rows: readonly string[];
  readonly seed: number;
  readonly isShort: boolean;
}

/** Message of the process. The run is aborted if it could not reach a result. */
export type Told =
  | { readonly said: string }
  | { readonly outcome: Outcome }
  | { readonly lacking: string }
  | { readonly broke: string };

const RUN = fileURLToPath(new URL('./oneRun.ts', import.meta.url));

/**
 * @param withinMs time limit, after which the run has failed. @returns a failure also if the run aborts, hangs, or dies. @throws
 * Lacking if the row cannot run on this machine
 */
export async function runInOwnProcess(
  toTry: ToTry,
  withinMs: number,
  say: (line: string) => void,
): Promise<Outcome> {
  const begunMs = performance.now();
  const seconds = () => Math.round((performance.now() - begunMs) / 100) / 10;
  const child = fork(RUN);
  const ended = once(child, 'exit');
  let [last, why]: [string, string | undefined] = ['it was started', undefined];
  let came: Told | undefined;
  child.on('message', (told: Told) => {
    if (!('said' in told)) {
      came = told;
      return;
    }
    last = told.said;
    say(`${seconds()} s: ${last}`);
  });
  const limit = setTimeout(() => {
    why = `it did not end within ${withinMs / 1_000} s`;
    child.kill();
  }, withinMs);
  child.send(toTry);
  await ended;
  clearTimeout(limit);
  if (came !== undefined && 'lacking' in came) throw new Lacking(came.lacking);
  if (came !== undefined && 'outcome' in came) return came.outcome;
  if (came !== undefined && 'broke' in came) why = `it broke off: ${came.broke}`;
  const finding = `${why ?? 'its process died'}; the last of it: ${last}`;
  return { ...NOTHING, findings: [finding], seconds: seconds() };
}

const NOTHING = { events: 0, links: 0, refused: 0, unanswered: 0, drainSeconds: 0, counts: {} };
