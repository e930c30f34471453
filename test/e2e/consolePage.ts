/** A page of the console in a real Chromium, signed in; for the tests that look at one. */
import axe from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest';
import { findProgram } from '../games/gamePages.ts';
import type { Reached } from './product.ts';

const executablePath = findProgram('chromium');
if (executablePath === undefined) {
  console.warn('skipped: the console cannot be looked at here: there is no chromium');
}

/** Skipped where there is no Chromium. */
export const describeLooks = describe.skipIf(executablePath === undefined);

type ContextOptions = Parameters<Browser['newContext']>[0];

export interface Chromium {
  /** In a context of its own, which ends with the test. Whatever the page complains of fails the test. */
  page(options?: ContextOptions): Promise<Page>;
  /** Signed in by the address that a start prints. @param path of a page, as `tail` */
  signedIn(product: Reached, path: string, options?: ContextOptions): Promise<Page>;
}

export function aChromium(): Chromium {
  let browser: Browser;
  beforeAll(async () => {
    browser = await chromium.launch({ ...(executablePath && { executablePath }) });
  });
  afterAll(() => browser?.close());
  const page: Chromium['page'] = async (options = {}) => {
    const context = await browser.newContext(options);
    const opened = await context.newPage();
    const complaints: string[] = [];
    opened.on('pageerror', ({ message }) => complaints.push(message));
    opened.on('console', (message) => {
      // What was refused, or not answered, is for the page to tell.
      const isOfNetwork = message.text().startsWith('Failed to load resource');
      if (message.type() === 'error' && !isOfNetwork) complaints.push(message.text());
    });
    onTestFinished(async () => {
      await context.close();
      expect(complaints).toEqual([]);
    });
    return opened;
  };
  return {
    page,
    signedIn: async ({ credentials: { adminUrl, adminToken } }, path, options) => {
      const opened = await page(options);
      await opened.goto(`${adminUrl}/#token=${adminToken}`);
      await opened.getByRole('navigation').waitFor();
      await expect.poll(() => opened.url()).not.toContain(adminToken);
      await opened.goto(`${adminUrl}/#/${path}`);
      return opened;
    },
  };
}

/** What keeps somebody from reading the page, as axe finds it. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>(
    'axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] })',
  );
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}
