/** Tests the live tail in a real Chromium: events as games send them, filters, pause, and unchanged bytes of payloads. */
import { expect, test } from 'vitest';
import { anEvent, eventually } from './builders.ts';
import { aChromium, describeInChromium } from './consolePage.ts';
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
    await page.getByText('Showing 1 of 1 events').waitFor();
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
      await page.getByText(/Showing [1-9]/).waitFor();
      return await rows.count();
    };
    expect(await shownFor('Type', 'jump')).toBe(2);
    expect(await shownFor('Session', sessionId)).toBe(2);
    expect(await shownFor('Payload', 'at.level=4')).toBe(1);
    // Waits until ClickHouse has the session. The stream reads the sessions of the player when the stream opens, so it would miss
    // events of a later session.
    await eventually(
      () => shared.product.sql(`SELECT 1 FROM sessions WHERE id = '${sessionId}'`),
      ({ length }) => length > 0,
    );
    expect(await shownFor('Player', player)).toBe(2);
    await page.getByRole('button', { name: 'Pause' }).click();
    await send();
    await page.getByRole('button', { name: 'Continue (2 more)' }).waitFor();
    expect(await rows.count()).toBe(2);
    await page.getByRole('button', { name: 'Continue' }).click();
    expect(await rows.count()).toBe(4);
    await page.getByRole('button', { name: 'Pause' }).click();
    await send();
    await page.getByRole('button', { name: 'Continue (2 more)' }).waitFor();
    await page.getByLabel('Type', { exact: true }).fill('fall');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByRole('button', { name: 'Continue (0 more)' }).waitFor();
  });
});
