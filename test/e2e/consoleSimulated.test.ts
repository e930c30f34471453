/** Tests every page of the console in a real Chromium during a simulated game. Ctrl-C stops the game at the end. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { eventually } from './builders.ts';
import { describeInChromium } from './chromium.ts';
import { aChromium, violations } from './consolePage.ts';
import type { Reached } from './product.ts';
import { running } from './questlogCommand.ts';
import { ownProduct } from './sharedProduct.ts';

/** Options of the game. The first crashes happen after seconds, and the game lasts longer than the test. */
const GAME = ['--players', '400', '--minutes', '3', '--seed', '160'];
const NAME = 'Fox Run, seed 160';
const STUDIO = 'Simulated studio';
const QUOTA = 20;

/** Checks of content that only a running game shows, by the path of the page. The test opens the pages in this order. */
const SHOWS: Readonly<Record<string, (page: Page, address: string) => Promise<void>>> = {
  tail: async (page) => {
    await page.getByText('Live.').waitFor();
    const counted = page.getByText(/Showing [\d,]+ of [\d,]+ new events/);
    const matched = async () => numberIn(/of ([\d,]+) new events/, await counted.textContent());
    const first = await eventually(matched, (events) => events > 0);
    await eventually(matched, (events) => events > first);
    const row = page.locator('tbody tr').first();
    expect(await row.getByRole('cell').nth(2).textContent()).toBe(NAME);
    await page.getByText('over quota').first().waitFor();
  },
  rejects: async (page) => {
    // Waits for warnings. Some simulated players have wrong clocks, which cause warnings.
    const nothing = page.getByText(`Nothing was rejected or ignored in this time range in ${NAME}`);
    await page.getByText('Rejected: 0, ignored: 0, warned: ').or(nothing).waitFor();
  },
  letters: async (page) => {
    await page.getByText('Open: 0.').waitFor();
    await page.getByText('No dead letters.').waitFor();
  },
  reports: async (page) => {
    await page.getByText(/^\d+ reports?$/).waitFor();
    expect(await page.locator('tbody tr a').first().getAttribute('href')).toMatch(/^#\/report\//);
  },
  report: async (page, address) => {
    await page.goto(`${address}/#/reports`);
    const link = page.locator('tbody tr a').last();
    const title = (await link.textContent()) ?? '';
    await link.click();
    await page.getByRole('heading', { name: title, exact: true }).waitFor();
    const caption = (await page.getByText(/events of the session, no gap/).textContent()) ?? '';
    const events = numberIn(/([\d,]+) of \d/, caption);
    expect(caption).toContain(`${events} of ${events} events`);
    // The trail has all events of the session and the event that the report contains.
    await page.getByText(`${events + 1} linked`, { exact: true }).waitFor();
    await expect
      .poll(() => page.getByRole('region', { name: 'Events of the report' }).locator('tbody tr').count())
      .toBe(events + 1);
    expect(await page.locator('.timeline circle').count()).toBeGreaterThan(2);
    await page.getByRole('button', { name: 'crash' }).waitFor();
    await page.getByLabel('The text of game.log').getByText('SIGSEGV').waitFor();
    await eventually(
      () => page.evaluate<number>("document.querySelector('main img')?.naturalWidth ?? 0"),
      (width) => width > 0,
    );
  },
  follow: async (page) => {
    // Continues from the page of the report that is open.
    await page.goBack();
    await page.getByRole('button', { name: 'crash' }).click();
    await page.getByRole('link', { name: 'Follow this event' }).click();
    await page.locator('.steps li.done').nth(3).waitFor();
    const steps = await page.locator('.steps li.done h3').allTextContents();
    expect(steps).toEqual(['Answered', 'In the log', 'In ClickHouse', expect.stringMatching(/^Linked to ./)]);
  },
  health: async (page) => {
    const rate = page.getByRole('group', { name: 'Events per second' }).locator('strong');
    await eventually(
      async () => Number.parseFloat((await rate.textContent()) ?? ''),
      (perSecond) => perSecond > 0,
    );
    await page.getByRole('group', { name: 'Response time, p99' }).getByText(/\d ms/).waitFor();
    const consumers = page.getByRole('region', { name: 'Consumers of the log' }).locator('tbody tr');
    await expect.poll(() => consumers.count()).toBe(7);
  },
  overview: async (page) => {
    const figure = (name: string) => page.getByRole('link', { name });
    for (const name of ['Events per minute', 'Active sessions', 'Tenants over quota']) {
      await eventually(
        async () => numberIn(/([\d,]+)/, await figure(name).locator('strong').textContent()),
        (shown) => shown > 0,
      );
    }
    await figure('Requests answered').getByText('100\u00a0%', { exact: true }).waitFor();
    await page.getByRole('region', { name: 'Newest reports' }).locator('tbody tr a').first().waitFor();
  },
  quota: async (page) => {
    const gauge = page.getByRole('img', { name: new RegExp(`^${STUDIO}: [\\d,]+ of ${QUOTA} events`) });
    const label = await gauge.getAttribute('aria-label');
    const used = numberIn(/: ([\d,]+) of/, label);
    expect(used).toBeGreaterThan(QUOTA);
    expect(numberIn(/, ([\d,]+) over quota/, label)).toBe(used - QUOTA);
    await page.getByText(/Forecast for the end of the month: [1-9]/).waitFor();
  },
  manage: async (page) => {
    const project = page.getByRole('region', { name: 'Projects' }).getByRole('row', { name: NAME });
    await project.getByRole('cell', { name: STUDIO }).waitFor();
    const token = page.getByRole('region', { name: 'Access tokens' }).getByRole('row', { name: NAME });
    await token.getByText('events:write').waitFor();
  },
  audit: async (page) => {
    const made = page.getByRole('row', { name: 'POST /admin/projects' }).first();
    await made.getByText('from 127.0.0.1').waitFor();
    await made.getByRole('button', { name: /^Show/ }).click();
    await page.getByRole('dialog').getByText(NAME).waitFor();
    await page.getByRole('button', { name: 'Close' }).click();
  },
  ask: async (page) => {
    const editor = page.getByLabel('SQL query');
    await editor.fill(`SELECT count() AS events, uniqExact(session_id) AS sessions
      FROM events WHERE project_id = {project:UUID}`);
    const answered = async () => {
      await editor.press('Control+Enter');
      await page.getByRole('button', { name: 'Run', exact: true }).waitFor();
      return Number(
        await page.getByRole('region', { name: 'Query result' }).getByRole('cell').first().textContent(),
      );
    };
    const first = await eventually(answered, (events) => events > 0);
    await eventually(answered, (events) => events > first);
  },
};

describeInChromium('an operator during a simulated game', () => {
  const shared = ownProduct();
  const chromium = aChromium();

  test('sees the game on every page while the game runs, and its totals after Ctrl-C', async () => {
    const { product } = shared;
    await product.admin('POST', '/admin/tenants', { name: STUDIO, monthlySoftQuota: QUOTA });
    const played = running(['simulate', ...GAME], environmentOf(product));
    await eventually(
      async () => (await product.admin('GET', '/admin/projects')).text(),
      (projects) => projects.includes(NAME),
    );
    const page = await chromium.signedIn(product, 'tail');
    expect(Object.keys(SHOWS).sort()).toEqual(await pathsOf(page));
    await page.getByLabel('Project').selectOption({ label: NAME });
    for (const [path, shows] of Object.entries(SHOWS)) {
      const address = product.credentials.adminUrl;
      await page.goto(`${address}/#/${path}`);
      await shows(page, address);
      expect(await violations(page), path).toEqual([]);
    }

    expect(played.child.exitCode, played.output.stderr).toBe(null);
    played.child.kill('SIGINT');
    expect(await played.ended()).toBe(130);
    const { stdout, stderr } = played.output;
    const [, sent = ''] = /^stopped; sent (.*)$/m.exec(stderr) ?? [];
    expect(sent).toMatch(/^[\d,]+ events, [1-9]\d* reports$/);
    expect(stdout).toContain(`sent ${sent}\nin ClickHouse ${sent}\n`);
  });
});

function environmentOf({ credentials }: Reached): Record<string, string> {
  const { adminUrl, adminToken, baseUrl, token } = credentials;
  return {
    QUESTLOG_ADMIN_URL: adminUrl,
    QUESTLOG_ADMIN_TOKEN: adminToken,
    QUESTLOG_URL: baseUrl,
    QUESTLOG_TOKEN: token,
  };
}

/** Returns the paths of all pages, including the pages that are not in the navigation. */
async function pathsOf(page: Page): Promise<string[]> {
  const paths = await page.evaluate<string[]>(
    "import('/ui/pages.ts').then(({ PAGES }) => PAGES.map(({ path }) => path))",
  );
  return paths.sort();
}

function numberIn(pattern: RegExp, text: string | null): number {
  return Number(pattern.exec(text ?? '')?.[1]?.replaceAll(',', '') ?? Number.NaN);
}
