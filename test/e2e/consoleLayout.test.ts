/**
 * Tests the layout of every page of the console in a real Chromium. Uses a large screen, a phone screen, and the longest values.
 */
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { layoutFaults } from '../console/layoutFaults.ts';
import { fillWithLongValues, LONG_TYPE, type LongValues, withDeadLetters } from '../console/longValues.ts';
import { anEvent } from './builders.ts';
import { describeInChromium } from './chromium.ts';
import { aChromium, violations } from './consolePage.ts';
import { ownProduct } from './sharedProduct.ts';

const SIZES = [
  { width: 1280, height: 800, colorScheme: 'light' },
  { width: 390, height: 844, colorScheme: 'dark' },
] as const;

describeInChromium('an operator who reads long values', () => {
  const shared = ownProduct();
  const chromium = aChromium();
  let long: LongValues;
  beforeAll(async () => {
    long = await fillWithLongValues(shared.product);
  });

  /** Steps that open each view, and the content that shows that the view is complete. */
  const VIEWS: Readonly<
    Record<string, (page: Page, open: (path: string) => Promise<void>) => Promise<void>>
  > = {
    overview: async (page, open) => {
      await open('overview');
      await page.getByRole('link', { name: /^Health (Good|\d)/ }).waitFor();
      await page.getByRole('region', { name: 'Newest reports' }).locator('tbody tr').nth(4).waitFor();
    },
    'live tail': async (page, open) => {
      await open('tail');
      await page.getByText('Live.').waitFor();
      const { game } = long;
      const { sessionId } = game;
      const types = [LONG_TYPE, 'jump'];
      await game.post(types.map((eventType) => anEvent({ sessionId, eventType, payload: { LONG_TYPE } })));
      await page.locator('tbody tr').nth(1).waitFor();
    },
    'event of the live tail': async (page) => {
      await page.locator('tbody button').last().click();
      await page.getByRole('dialog').waitFor();
    },
    rejects: async (page, open) => {
      await open('rejects');
      await page.locator('.uplot canvas').waitFor();
    },
    'dead letters': async (page, open) => {
      await open('letters');
      await page.locator('tbody tr').nth(2).waitFor();
    },
    'discarding a dead letter': async (page) => {
      await page.getByRole('button', { name: 'Discard' }).first().click();
    },
    'follow, empty': async (page, open) => {
      await page.keyboard.press('Escape');
      await open('follow');
      await page.getByText('Paste the id').waitFor();
    },
    follow: async (page, open) => {
      await open(`follow/${long.eventId}`);
      await page.locator('.steps li').nth(3).waitFor();
    },
    reports: async (page, open) => {
      await open('reports');
      await page.getByRole('button', { name: 'More' }).waitFor();
    },
    'reports, grouped': async (page) => {
      await page.getByRole('button', { name: 'Group by fingerprint' }).click();
      await page.getByText('problems').waitFor();
    },
    'reports, empty': async (page) => {
      await page.getByRole('button', { name: 'Show single reports' }).click();
      await page.getByLabel('Build').fill('none');
      await page.getByRole('button', { name: 'Search' }).click();
      await page.getByText('No report matches').waitFor();
    },
    report: async (page, open) => {
      await open(`report/${long.reportId}`);
      await page.getByRole('region', { name: 'Events of the report' }).waitFor();
      await page.getByText('Similar reports').waitFor();
    },
    health: async (page, open) => {
      await open('health');
      await page.locator('tbody tr').nth(6).waitFor();
      // Waits for the charts in one of the sizes only, because the charts appear after some seconds.
      if (page.viewportSize()?.width === 390) await page.locator('.uplot canvas').last().waitFor();
    },
    quota: async (page, open) => {
      await open('quota');
      await page.locator('.uplot canvas').waitFor();
    },
    manage: async (page, open) => {
      await open('manage');
      await page.getByRole('region', { name: 'Switches' }).locator('tbody tr').nth(1).waitFor();
    },
    'new project': async (page) => {
      await page.getByRole('button', { name: 'New project' }).click();
      await page.getByRole('button', { name: 'Create project' }).click();
      await page.locator('.problem').waitFor();
    },
    'new switch': async (page) => {
      await page.keyboard.press('Escape');
      await page
        .getByRole('button', { name: /^New switch/ })
        .first()
        .click();
    },
    limits: async (page) => {
      await page.keyboard.press('Escape');
      await page
        .getByRole('region', { name: 'Projects' })
        .getByRole('button', { name: /^Limits/ })
        .first()
        .click();
    },
    'new token': async (page) => {
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'New token' }).click();
    },
    audit: async (page, open) => {
      await page.keyboard.press('Escape');
      await open('audit');
      await page.locator('tbody tr').nth(3).waitFor();
    },
    'audit entry': async (page) => {
      await page.getByRole('button', { name: 'Show' }).first().click();
    },
    'ask, mistake': async (page, open) => {
      await page.keyboard.press('Escape');
      await open('ask');
      await page.getByLabel('SQL query').fill(`SELECT ${LONG_TYPE}`);
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.getByRole('alert').waitFor();
    },
    ask: async (page) => {
      await page.getByLabel('SQL query').fill(MILLIONS);
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.locator('tbody tr').nth(71).waitFor();
    },
    'ask, chart': async (page) => {
      await page.getByRole('button', { name: 'Show as chart' }).click();
      await page.locator('.uplot canvas').waitFor();
    },
    'ask, chart of four minutes': async (page) => {
      await page.getByLabel('SQL query').fill(FOUR_MINUTES);
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.locator('.u-legend').getByText('239').waitFor();
    },
  };

  describe.each(SIZES)('at $width × $height, $colorScheme', ({ width, height, colorScheme }) => {
    test('sees every value in full or shortened with an ellipsis', async () => {
      const options = { viewport: { width, height }, colorScheme };
      const signedOut = await chromium.page(options);
      await signedOut.goto(shared.product.credentials.adminUrl);
      await signedOut.getByLabel('Admin token').waitFor();
      expect(await layoutFaults(signedOut)).toEqual([]);

      const page = await chromium.signedIn(shared.product, 'tail', options);
      await withDeadLetters(page);
      const open = async (path: string): Promise<void> => {
        await page.goto(`${shared.product.credentials.adminUrl}/#/${path}`);
      };
      const faults: Record<string, string[]> = {};
      for (const [name, show] of Object.entries(VIEWS)) {
        await show(page, open);
        await page.getByText('Loading…').waitFor({ state: 'hidden' });
        const found = await layoutFaults(page);
        // Checks accessibility in the dark color scheme. Other test files check it at a width of 1280 in the light color scheme.
        if (colorScheme === 'dark') found.push(...(await violations(page)));
        if (found.length > 0) faults[name] = found;
      }
      expect(faults).toEqual({});
    });
  });
});

const MILLIONS = `SELECT toDateTime('2026-11-20 01:00:00', 'UTC') + number * 3600 AS t, number * 123456 AS n,
  repeat('x', 300) AS long FROM numbers(72)`;
const FOUR_MINUTES =
  "SELECT toDateTime('2026-11-20 01:00:20', 'UTC') + number AS t, number AS n FROM numbers(240)";
