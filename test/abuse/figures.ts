/** Tells whether the abuse suite runs in its long form, and writes the figures for `docs/evidence/security.md`. */
import { appendFileSync } from 'node:fs';

/** File for the figures. Undefined if figures are not recorded. */
const FIGURES = process.env['QUESTLOG_ABUSE_FIGURES'];

export const isLong = process.env['QUESTLOG_TEST_RUNS'] === 'long';

export interface Figure {
  readonly attack: string;
  readonly tried: string;
  readonly held: string;
}

export function recordFigure(attack: string, of: Omit<Figure, 'attack'>): void {
  if (FIGURES !== undefined) appendFileSync(FIGURES, `${JSON.stringify({ attack, ...of })}\n`);
}
