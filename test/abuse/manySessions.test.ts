/**
 * Whoever has a game's token registers sessions under somebody's id: the player is erased all the same, with what is real. In the
 * long form only, as it takes minutes: it shows that the log, ClickHouse and the projector take the parts of an erasure.
 */
import { expect, test } from 'vitest';
import { anEvent, eventually } from '../e2e/builders.ts';
import * as erasing from '../e2e/erasing.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { isLong, tell } from './figures.ts';

const shared = ownProduct();
/** More than one record of the log has room for, and than an erasure takes unless they are meant. */
const SESSIONS = 20_147;
const CONNECTIONS = 48;
const [DONE_WITHIN_MS, LONG_MS] = [600_000, 900_000];

test.runIf(isLong)(
  'a player to whose id somebody has registered 20,147 sessions is erased',
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
    await erasing.keepOldPartsShortly(shared.product);
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
    // Its count of sessions is not asked for: it is lower where ClickHouse broke off a mutation for a merge.
    expect(receipt.found.events).toBe(1);
    // The session that every project of a test has stays.
    expect(await erasing.countsOf(shared.product, game)).toEqual([0, 1, 0, 0]);
    expect((await game.post([anEvent({ sessionId })])).status).toBe(404);
    const hiddenS = Math.round((Date.parse(receipt.hiddenAt) - sinceMs) / 1000);
    tell('Many sessions under one player’s id', {
      tried: `${SESSIONS} sessions of one token`,
      held: `the erasure hides all of them after ${hiddenS} s`,
    });
  },
  LONG_MS,
);
