/** Runs the short form of the campaign: each row once, with one result for the rows of one environment. */
import { expect, test } from 'vitest';
import type { OwnStack } from '../../stack/ownStack.ts';
import { Lacking } from './row.ts';
import { shortRuns } from './rows.ts';
import { tryRows } from './tryRows.ts';

const WITHIN_MS = 900_000;

export function shortForm(own: OwnStack, seed: number): void {
  test.each(shortRuns().map((rows) => ({ rows, names: rows.map(({ name }) => name).join(',') })))(
    '$names',
    async ({ rows, names }) => {
      const { engines, commands: stack } = own;
      if (engines === undefined) return;
      await stack.do('up');
      const outcome = await tryRows({ engines, stack }, rows, {
        seed,
        isShort: true,
        say: console.log,
      }).catch((error: unknown) => {
        if (!(error instanceof Lacking)) throw error;
        console.log(`skipped: ${names}: ${error.message}`);
      });
      if (outcome === undefined) return;
      const { findings, seconds, events, links, refused, counts } = outcome;
      console.log(
        `campaign: ${seconds} s, ${events} events, ${links} links, ${refused} answers of 503,`,
        counts,
      );
      expect(findings, `repeat it: npm run test:faults -- --row ${names} --short --seed ${seed}`).toEqual([]);
    },
    WITHIN_MS,
  );
}
