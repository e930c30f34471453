/**
 * Tests the erasure of a player for whom another client registered thousands of false sessions. The test runs only in the
 * long form, because it takes minutes: the log, ClickHouse, and the projector process the erasure in parts.
 */
import { expect, test } from 'vitest';
import { anEvent, eventually } from '../e2e/builders.ts';
import * as erasing from '../e2e/erasing.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { isLong, recordFigure } from './figures.ts';

const shared = ownProduct();
/** More sessions than one record of the log can contain, and more than an erasure includes by default. */
const SESSIONS = 20_147;
const CONNECTIONS = 48;
const [DONE_WITHIN_MS, LONG_MS] = [600_000, 900_000];

test.runIf(isLong)(
  'erases a player for whose id another client registered 20,147 sessions',
  async () => {
    const game = await shared.aProject({ revision: 'A' });
    const player = { externalId: 'kim' };
    const sessionId = await game.session({ player });
    await game.post([anEvent({ sessionId })]);
    let left = SESSIONS - 1;
    const register = async () => {
      while (left-- > 0) await game.session({ player });
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, register));
    await erasing.shortenPartLifetime(shared.product);
    const { tenantId, projectId } = game;
    const asked = { tenantId, projectId, player };
    await eventually(
      () => shared.product.admin('POST', erasing.ERASURES, asked),
      ({ status, text }) => status === 400 && text().includes('more than 20000 sessions have it'),
    );
    const sinceMs = Date.now();
    const id = await erasing.erase(shared.product, { ...asked, many: true });
    const look = async () => (await shared.product.admin('GET', `${erasing.ERASURES}/${id}`)).json();
    const { receipt, ...ended } = await eventually(
      look,
      ({ state }) => state === 'done' || state === 'failed',
      DONE_WITHIN_MS,
    );
    expect(ended).toEqual({ id, state: 'done', problem: null });
    // The count of sessions is not checked, because it is lower if ClickHouse stopped a mutation for a merge.
    expect(receipt.found.events).toBe(1);
    // The default session of the test project is not erased.
    expect(await erasing.countsOf(shared.product, game)).toEqual([0, 1, 0, 0]);
    expect((await game.post([anEvent({ sessionId })])).status).toBe(404);
    const hiddenS = Math.round((Date.parse(receipt.hiddenAt) - sinceMs) / 1000);
    recordFigure('Many sessions under one player’s id', {
      tried: `${SESSIONS} sessions of one token`,
      held: `the erasure hides all of them after ${hiddenS} s`,
    });
  },
  LONG_MS,
);
