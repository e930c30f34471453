/** Tests the overview of the console in a real Chromium. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { anEvent, anUnknownId, eventually } from './builders.ts';
import { describeInChromium } from './chromium.ts';
import { aChromium, violations } from './consolePage.ts';
import { sharedProduct } from './sharedProduct.ts';

describeInChromium('the overview', () => {
  const shared = sharedProduct();
  const chromium = aChromium();

  const figure = (page: Page, name: string) => page.getByRole('main').getByRole('link', { name });

  test('shows the figures of a project, and each figure opens the page with the details', async () => {
    const game = await shared.aProject({ revision: 'B', monthlySoftQuota: 1 });
    const sessions = await Promise.all([game.session(), game.session()]);
    await game.post(sessions.map((sessionId) => anEvent({ sessionId })));
    await game.post({ evenType: 'jump' });
    const title = `It fell ${anUnknownId()}`;
    await game.report({ sessionId: sessions[0], report: { title, severity: 'high' } });
    await eventually(
      () => shared.product.sql(`SELECT 1 FROM rejects WHERE project_id = '${game.projectId}'`),
      ({ length }) => length > 0,
    );
    await eventually(
      () => shared.product.sql(`SELECT 1 FROM reports WHERE project_id = '${game.projectId}'`),
      ({ length }) => length > 0,
    );
    const page = await chromium.signedIn(shared.product, 'tail');
    await page.getByRole('banner').getByRole('combobox').selectOption(game.projectId);
    await page.getByRole('navigation').getByRole('link', { name: 'Overview' }).click();
    await figure(page, 'Active sessions').getByText('2', { exact: true }).waitFor();
    await figure(page, 'Rejections').getByText('1', { exact: true }).waitFor();
    await figure(page, 'Tenants over quota')
      .getByText(/^[1-9]/)
      .waitFor();
    await figure(page, 'Requests answered')
      .getByText(/^\d.*%$/)
      .waitFor();
    await figure(page, 'Events in time')
      .getByText(/^\d.*%$/)
      .waitFor();
    await page.getByRole('region', { name: 'Newest reports' }).getByRole('link', { name: title }).waitFor();
    expect(await violations(page)).toEqual([]);

    const pages = {
      Health: 'Health',
      'Events per minute': 'Live tail',
      Rejections: 'Rejects',
      'Active sessions': 'SQL',
    };
    for (const [name, heading] of Object.entries({ ...pages, 'Tenants over quota': 'Quota' })) {
      await figure(page, name).click();
      await page.getByRole('heading', { level: 1, name: heading }).waitFor();
      await page.goBack();
    }
  });

  test('marks a missed objective, and shows the first problem', async () => {
    const page = await chromium.signedIn(shared.product, 'tail');
    await page.route('**/admin/lag', async (route) => {
      const lag = await (await route.fetch()).json();
      const projection = { since: lag.at, lateShare: 0.010001 };
      await route.fulfill({ json: { ...lag, projection, disk: { freeBytes: 0, totalBytes: 1 } } });
    });
    await page.route('**/admin/sql', async (route) => {
      const answer = await (await route.fetch()).json();
      const data = answer.data.map((row: object) =>
        'failed' in row ? { ...row, answered: '998999', failed: '1001' } : row,
      );
      await route.fulfill({ json: { ...answer, data } });
    });
    await page.goto(`${shared.product.credentials.adminUrl}/#/overview`);
    const answered = figure(page, 'Requests answered');
    await answered.getByText('missed').waitFor();
    expect(await answered.textContent()).toContain('99.89\u00a0%');
    const inTime = figure(page, 'Events in time');
    await inTime.getByText('missed').waitFor();
    expect(await inTime.textContent()).toContain('98.99\u00a0%');
    await figure(page, 'Health').getByText('The disk is full.').click();
    const runbook = page.getByRole('status', { name: 'Verdict' }).getByRole('link', { name: /full-disk/ });
    expect(await runbook.getAttribute('href')).toMatch(
      /^https:.*\/docs\/operating\/runbooks\/full-disk\.md$/,
    );
  });

  test('keeps its content in place while the figures load', async () => {
    const game = await shared.aProject();
    await game.report({ sessionId: await game.session(), report: { title: 'a report' } });
    const page = await chromium.signedIn(shared.product, 'overview');
    await page.addInitScript(`window.shift = 0;
      new PerformanceObserver((list) => {
        for (const { value } of list.getEntries()) window.shift += value;
      }).observe({ type: 'layout-shift' });`);
    await page.reload();
    await figure(page, 'Requests answered').getByText(/%$/).first().waitFor();
    await page.getByRole('region', { name: 'Newest reports' }).waitFor();
    // The browser reports a shift after the frame of the shift.
    const shift = await page.evaluate<number>(
      'new Promise((resolve) => requestAnimationFrame(() => setTimeout(() => resolve(window.shift))))',
    );
    expect(shift).toBeLessThan(0.01);
  });
});
