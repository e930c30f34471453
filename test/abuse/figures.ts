/** The form of the abuse suite, and what `npm run test:abuse` writes down for `docs/evidence/security.md`. */
import { appendFileSync } from 'node:fs';

/** The file that takes the figures. */
const FIGURES = process.env['QUESTLOG_ABUSE_FIGURES'];

export const isLong = process.env['QUESTLOG_TEST_RUNS'] === 'long';

export interface Figure {
  readonly attack: string;
  readonly tried: string;
  readonly held: string;
}

export function tell(attack: string, of: Omit<Figure, 'attack'>): void {
  if (FIGURES !== undefined) appendFileSync(FIGURES, `${JSON.stringify({ attack, ...of })}\n`);
}
