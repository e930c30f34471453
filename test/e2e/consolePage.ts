/** Opens pages of the console in a real Chromium. The tests of the console use these functions. */
import axe from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';
import { launchChromium } from './chromium.ts';
import type { Reached } from './product.ts';

type ContextOptions = Parameters<Browser['newContext']>[0];

export interface Chromium {
  /** Opens a page in a separate browser context. The context closes with the test. An error on the page fails the test. */
  page(options?: ContextOptions): Promise<Page>;
  /** Opens a page and signs in with the URL that a start prints. @param path the path of a page, for example `tail` */
  signedIn(product: Reached, path: string, options?: ContextOptions): Promise<Page>;
}

export function aChromium(): Chromium {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());
  const page: Chromium['page'] = async (options = {}) => {
    const context = await browser.newContext(options);
    const opened = await context.newPage();
    const errors: string[] = [];
    opened.on('pageerror', ({ message }) => errors.push(message));
    opened.on('console', (message) => {
      // Ignores errors of requests in the browser log. The page itself must show rejected requests and requests without a
      // response.
      const isOfNetwork = message.text().startsWith('Failed to load resource');
      if (message.type() === 'error' && !isOfNetwork) errors.push(message.text());
    });
    onTestFinished(async () => {
      // A request that runs when the test ends must not fail the test.
      await opened.unrouteAll({ behavior: 'ignoreErrors' });
      await context.close();
      expect(errors).toEqual([]);
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

/** Returns the violations of accessibility rules that axe finds on the page. */
export async function violations(page: Page): Promise<string[]> {
  if (await page.evaluate("typeof axe === 'undefined'")) await page.evaluate(axe.source);
  const found = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>(
    `axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
      resultTypes: ["violations"],
    })`,
  );
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}
