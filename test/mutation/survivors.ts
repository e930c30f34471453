/**
 * The mutants that no test kills, by a text of their line, each group with its reason. A run fails where one of its
 * survivors is not here, and where one that is here is killed.
 */

export interface Survivors {
  readonly file: string;
  /** A part of the line on which the mutants begin. */
  readonly line: string;
  readonly reason: string;
}

const QUOTAS = 'services/ingest/src/events/quotas.ts';
const REPLAYS = 'services/ingest/src/events/replays.ts';

export const SURVIVORS: readonly Survivors[] = [
  {
    file: QUOTAS,
    line: 'const PACE =',
    reason: 'tests have a quicker pace; how soon a reading comes changes no reading',
  },
  { file: QUOTAS, line: 'const isNear =', reason: 'how soon a reading comes, not what it says' },
  { file: QUOTAS, line: 'await delay(isNear', reason: 'closing would wait out one pace' },
  {
    file: QUOTAS,
    line: 'const open = () =>',
    reason: 'a reading that overlaps the first one may be the older of two; the next one mends it',
  },
  {
    file: REPLAYS,
    line: 'forget(name);',
    reason: 'memory alone: a repeat of a key that was given up finds that nothing was stored',
  },
];
