/** Tests the live tail in a real Chromium: events as games send them, filters, pause, and unchanged bytes of payloads. */
import { expect, test } from 'vitest';
import { anEvent, eventually } from './builders.ts';
import { describeInChromium } from './chromium.ts';
import { aChromium } from './consolePage.ts';
import { sharedProduct } from './sharedProduct.ts';

describeInChromium('the live tail', () => {
  const shared = sharedProduct();
  const chromium = aChromium();

  test('shows a new event, and its payload as it was sent', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const page = await chromium.signedIn(shared.product, 'tail');
    await page.getByLabel('Project').selectOption(game.projectId);
    await page.getByText('Live.').waitFor();
    const payload =
      '{"level":3,"big":12345678901234567890,"x":1.0,"x":-0,"html":"<img src=x onerror=alert(1)>"}';
    await game.post(`[{"eventType":"checkpoint","payload":${payload}}]`);
    await page.getByRole('button', { name: 'checkpoint' }).click();
    expect(await page.getByRole('dialog').locator('pre').textContent()).toBe(payload);
    await page.keyboard.press('Escape');
    await page.getByText('Showing 1 of 1 new events').waitFor();
  });

  test('starts with the last 50 events, newest first, and adds each new event once', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const types = Array.from({ length: 55 }, (_, n) => `stored ${n}`);
    await game.post(types.map((eventType) => anEvent({ eventType, payload: { level: 3 } })));
    const path = `${shared.product.credentials.adminUrl}/#/tail`;
    await eventually(
      () => shared.product.sql(`SELECT 1 FROM events WHERE project_id = '${game.projectId}'`),
      ({ length }) => length === types.length,
    );
    const page = await chromium.signedIn(shared.product, 'overview');
    await page.getByRole('banner').getByRole('combobox').selectOption(game.projectId);
    await page.goto(path);
    const buttons = page.locator('tbody tr button');
    const newest = types.toReversed().slice(0, 50);
    await expect.poll(() => buttons.allTextContents()).toEqual(newest);
    await buttons.first().click();
    expect(await page.getByRole('dialog').locator('pre').textContent()).toBe('{"level":3}');
    await page.keyboard.press('Escape');
    await game.post(anEvent({ eventType: 'new' }));
    await expect.poll(() => buttons.allTextContents()).toEqual(['new', ...newest]);

    // Filters the stored events too.
    await page.getByLabel('Type', { exact: true }).fill('stored 7');
    await page.getByRole('button', { name: 'Filter' }).click();
    await expect.poll(() => buttons.allTextContents()).toEqual(['stored 7']);
  });

  test('ends its stream while the page is hidden, and asks for the token after a 401', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const page = await chromium.signedIn(shared.product, 'tail');
    await page.getByLabel('Project').selectOption(game.projectId);
    await page.getByText('Live.').waitFor();
    const setHidden = (isHidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
         document.dispatchEvent(new Event('visibilitychange'));`,
      );
    const isEnded = page.waitForEvent('requestfailed', (request) => request.url().includes('/admin/tail'));
    await setHidden(true);
    await isEnded;
    await setHidden(false);
    await page.getByText('Live.').waitFor();
    await game.post(anEvent({ eventType: 'seen again' }));
    await page.getByRole('button', { name: 'seen again' }).waitFor();

    await page.route('**/admin/tail?*', (route) => route.fulfill({ status: 401, json: {} }));
    await setHidden(true);
    await setHidden(false);
    await page.getByLabel('Admin token').waitFor();
  });

  test('filters by type, session, player, and payload, and counts events while paused', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const player = `player-${game.projectId}`;
    const sessionId = await game.session({ player: { externalId: player } });
    const page = await chromium.signedIn(shared.product, 'tail');
    const rows = page.locator('tbody tr');
    await page.getByLabel('Project').selectOption(game.projectId);
    const send = () =>
      game.post([
        anEvent({ sessionId, eventType: 'jump', payload: { at: { level: 3 } } }),
        anEvent({ eventType: 'jump', payload: { at: { level: 4 } } }),
        anEvent({ sessionId, eventType: 'fall', payload: {} }),
      ]);
    const shownFor = async (label: string, value: string): Promise<number> => {
      for (const input of await page.locator('.filters input').all()) await input.fill('');
      await page.getByLabel(label, { exact: true }).fill(value);
      await page.getByRole('button', { name: 'Filter' }).click();
      await page.getByText('Live. Showing 0 of 0').waitFor();
      await send();
      const counted = await page.getByText(/Showing [1-9]/).textContent();
      return Number(/of (\d+) new/.exec(counted ?? '')?.[1]);
    };
    expect(await shownFor('Type', 'jump')).toBe(2);
    expect(await shownFor('Session', sessionId)).toBe(2);
    expect(await shownFor('Payload', 'at.level=4')).toBe(1);
    // Waits until ClickHouse has the session. The stream reads the sessions of the player when the stream opens, so it would miss
    // events of a later session.
    await eventually(
      () =>
        shared.product.sql(`SELECT 1 FROM events
          WHERE session_id IN (SELECT id FROM sessions WHERE id = '${sessionId}')`),
      ({ length }) => length === 6,
    );
    expect(await shownFor('Player', player)).toBe(2);
    await expect.poll(() => rows.count()).toBe(8);
    await page.getByRole('button', { name: 'Pause' }).click();
    await send();
    await page.getByRole('button', { name: 'Continue (2 more)' }).waitFor();
    expect(await rows.count()).toBe(8);
    await page.getByRole('button', { name: 'Continue' }).click();
    expect(await rows.count()).toBe(10);
    await page.getByRole('button', { name: 'Pause' }).click();
    await send();
    await page.getByRole('button', { name: 'Continue (2 more)' }).waitFor();
    await page.getByLabel('Type', { exact: true }).fill('fall');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByRole('button', { name: 'Continue (0 more)' }).waitFor();
  });
});
