/**
 * Tests the pages of a report and of an event in a real Chromium. A report shows its files and its trail as text only. An event
 * shows its steps.
 */
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, type TestProject } from './builders.ts';
import { describeInChromium } from './chromium.ts';
import { aChromium, violations } from './consolePage.ts';
import { sharedProduct } from './sharedProduct.ts';

const HOSTILE = '<img src=x onerror="document.title=1">';
const PAGE_OF_A_GAME = '<script>document.title="taken"</script><h1>Sign in</h1>';
const PICTURE = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg==',
  'base64',
);
const shared = sharedProduct();

/** Uploads a file for a report. @returns the attachment in the form that a report needs */
async function uploadFile(game: TestProject, fileName: string, mimeType: string, bytes: Buffer | string) {
  const attachmentType = mimeType === 'image/png' ? 'screenshot' : 'log_bundle';
  const described = { attachmentType, fileName, mimeType };
  const upload = (await game.request('POST', '/v1/ingest/uploads', { body: described })).json();
  const { pathname, search } = new URL(upload.uploadUrl);
  const headers = { 'Content-Type': mimeType };
  const put = await game.request('PUT', pathname + search, { body: bytes, headers });
  expect(put.status).toBe(200);
  return { uploadId: String(upload.uploadId), ...described };
}

describe.concurrent('an uploaded file on the admin listener', () => {
  test.each([
    ['image/png', 'image/png', /^inline$/],
    ['image/svg+xml', 'application/octet-stream', /^attachment/],
    ['text/html', 'text/plain; charset=utf-8', /^attachment/],
    ['application/x-anything', 'application/octet-stream', /^attachment/],
  ])('with type %s is served as %s, and never as a page', async (mimeType, type, disposition) => {
    const game = await shared.aProject({ revision: 'B' });
    const { uploadId } = await uploadFile(game, 'a.file', mimeType, PAGE_OF_A_GAME);
    const answer = await shared.product.admin('GET', `/admin/uploads/${game.projectId}/${uploadId}`);
    expect([answer.status, answer.text()]).toEqual([200, PAGE_OF_A_GAME]);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': type,
      'content-disposition': expect.stringMatching(disposition),
      'content-length': String(PAGE_OF_A_GAME.length),
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'",
      'cache-control': 'private, no-store',
    });
  });

  test('requires the admin token, and is a 404 under another project', async () => {
    const [game, other] = [await shared.aProject(), await shared.aProject()];
    const { uploadId } = await uploadFile(game, 'game.log', 'text/plain', 'mine');
    const path = `/admin/uploads/${game.projectId}/${uploadId}`;
    const { adminUrl } = shared.product.credentials;
    expect((await fetch(adminUrl + path)).status).toBe(401);
    const headers = { Authorization: `Bearer ${game.token}` };
    expect((await fetch(adminUrl + path, { headers })).status).toBe(401);
    const ids = [
      `${other.projectId}/${uploadId}`,
      `${game.projectId}/${anUnknownId()}`,
      `${game.projectId}/..%2f${uploadId}`,
      `x/${uploadId}`,
    ];
    for (const id of ids) {
      expect([id, (await shared.product.admin('GET', `/admin/uploads/${id}`)).status]).toEqual([id, 404]);
    }
  });
});

describeInChromium('an operator who reads reports', () => {
  const chromium = aChromium();

  async function fileReport(
    game: TestProject,
    of: { title: string; types: readonly string[] },
    more: object = {},
  ) {
    const build = { version: '1.4.2', platform: 'Web' };
    const sessionId = await game.session({ build, player: { externalId: `player of ${of.title}` } });
    // Skips the fourth sequence number, as if the event was lost.
    const events = of.types.map((eventType, n) =>
      anEvent({ sessionId, eventType, sequence: n < 3 ? n + 1 : n + 2, payload: { n, html: HOSTILE } }),
    );
    expect((await game.post(events)).status).toBe(201);
    const report = { title: of.title, severity: 'high', fingerprint: `stuck ${game.projectId}` };
    const answer = await game.report({ sessionId, report, ...more });
    expect(answer.status).toBe(201);
    const { id } = answer.json();
    // Waits until ClickHouse has the report, because the read waits for the projection.
    await game.get(`/v1/reports/${id}`);
    return { id: String(id), sessionId };
  }

  test('sees a report as text, with its files, trail, gap, and similar reports, and sees its retraction', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const types = ['start', 'jump', HOSTILE, 'wall', 'stuck'];
    const other = await fileReport(game, { title: 'Stuck as well', types: ['start', ...types.slice(1)] });
    const { id } = await fileReport(
      game,
      { title: HOSTILE, types },
      {
        context: { scene: HOSTILE, big: 1 },
        eventIds: [anUnknownId()],
        attachments: [
          await uploadFile(game, `${HOSTILE.replaceAll('"', '')}.png`, 'image/png', PICTURE),
          await uploadFile(game, 'game.log', 'text/plain', `frame 1\n${'x'.repeat(70_000)}`),
          await uploadFile(game, 'evil.html', 'text/html', PAGE_OF_A_GAME),
          await uploadFile(game, 'evil.svg', 'image/svg+xml', '<svg xmlns="http://www.w3.org/2000/svg"/>'),
        ],
      },
    );
    const page = await chromium.signedIn(shared.product, `report/${id}`);

    await page.getByRole('heading', { name: HOSTILE, exact: true, level: 1 }).waitFor();
    await page.locator('nav a[aria-current][href="#/reports"]').waitFor();
    await page.getByRole('img', { name: /onerror.*png$/ }).waitFor();
    await expect.poll(() => page.evaluate("document.querySelector('main img').naturalWidth")).toBe(2);
    await page.getByText('frame 1').waitFor();
    await page.getByText('Showing the first 64 KiB').waitFor();
    expect(await page.getByLabel('The text of evil.html').textContent()).toBe(PAGE_OF_A_GAME);
    await page.getByText('1.4.2 · Web').waitFor();
    await page.getByText('5 of 6 events of the session; missing: 4').waitFor();
    await page.getByText('5 linked, 1 pending').waitFor();
    expect(await page.getByRole('region', { name: 'Events of the report' }).locator('tbody tr').count()).toBe(
      6,
    );
    expect(await page.locator('.timeline circle').count()).toBeGreaterThan(0);
    await page.getByRole('button', { name: HOSTILE }).click();
    await page
      .getByRole('dialog')
      .getByText(JSON.stringify({ n: 2, html: HOSTILE }))
      .waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { name: /2 reports of 2 players on 1 build/ }).waitFor();
    const sameLast = page.getByRole('region', { name: 'Reports after the same events' });
    expect(await sameLast.getByRole('link').getAttribute('href')).toBe(`#/report/${other.id}`);
    expect(await elementsOf(page)).toEqual({
      pictures: 1,
      scripts: 0,
      headings: 1,
      title: 'Report · Questlog',
    });
    expect(await violations(page)).toEqual([]);
    await page.setViewportSize({ width: 390, height: 800 });
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);

    expect((await game.request('DELETE', `/v1/reports/${id}`)).status).toBe(204);
    await page.getByText('retracted', { exact: true }).first().waitFor();
    await page.getByText('6 retracted with the report').waitFor();
  });

  test('pages through a trail of more than 500 events and queries the trail in SQL', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const { sessionId } = game;
    const batches = Array.from({ length: 6 }, (_, at) =>
      Array.from({ length: 100 }, (_, n) => anEvent({ sessionId, sequence: at * 100 + n + 1 })),
    );
    for (const batch of batches) expect((await game.post(batch)).status).toBe(201);
    const { id } = (await game.report({ sessionId, report: { title: 'After a long way' } })).json();
    const page = await chromium.signedIn(shared.product, `report/${id}`);
    await page.getByText('600 of 600 events of the session, no gap').waitFor();
    await page.getByText('1 to 500 of 600').waitFor();
    await page.getByRole('button', { name: 'Later' }).click();
    await page.getByText('501 to 600 of 600').waitFor();
    const sequences = await page
      .getByRole('region', { name: 'Events of the report' })
      .locator('td:nth-child(3)')
      .allTextContents();
    expect(sequences).toEqual(Array.from({ length: 100 }, (_, n) => String(n + 501)));
    await page.getByRole('link', { name: 'Query its events' }).click();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('600 rows in').waitFor();
  });

  test('finds a report by text, build, and state, and problems by their reports', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const first = await fileReport(game, { title: `Fell ${HOSTILE}`, types: ['jump'] });
    await fileReport(game, { title: 'Black screen', types: ['jump'] });
    const page = await chromium.signedIn(shared.product, 'reports');
    await page.getByLabel('Project').selectOption(game.projectId);
    await page.getByText('2 reports').waitFor();
    const rows = page.locator('tbody tr');
    const search = async (label: string, value: string, shown: string): Promise<void> => {
      await page.getByLabel(label, { exact: true }).fill(value);
      await page.getByRole('button', { name: 'Search' }).click();
      await page.getByText(shown).waitFor();
    };
    await search('Search', 'fELL <', '1 report that match');
    await search('Build', '1.4.2', '1 report that match');
    await search('Build', '9', 'No report matches');
    await search('Build', '', '1 report that match');
    await page.getByLabel('State').selectOption('retracted');
    await page.getByText('No report matches').waitFor();
    expect((await game.request('DELETE', `/v1/reports/${first.id}`)).status).toBe(204);
    await game.get(`/v1/reports/${first.id}`);
    await page.getByLabel('State').selectOption('');
    await page.getByText('1 report that match').waitFor();
    await page.getByLabel('State').selectOption('filed');
    await page.getByText('No report matches').waitFor();
    await search('Search', 'STUCK', '1 report that match');
    await page.getByRole('button', { name: 'Group by fingerprint' }).click();
    await page.getByText('1 problem').waitFor();
    expect(await rows.locator('td').allTextContents()).toMatchObject([
      `Black screenstuck ${game.projectId}`,
      ...['1', '1', '1'],
      ...[expect.any(String), expect.any(String)],
    ]);
    await page.getByRole('button', { name: 'stuck' }).click();
    await page.getByText('2 reports that match').waitFor();
    expect(await elementsOf(page)).toMatchObject({ pictures: 0, scripts: 0 });
    await page.getByRole('link', { name: HOSTILE }).click();
    await page.getByText('retracted', { exact: true }).first().waitFor();
    // Shows no similar reports, although another report also follows a jump. With one event, half of all reports would match.
    await page.getByText('Too few events for a comparison').waitFor();
    expect(await page.getByRole('region', { name: 'Reports after the same events' }).count()).toBe(0);
  });

  test('follows an event from the live tail to the log, to ClickHouse, and to its report', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const page = await chromium.signedIn(shared.product, 'tail');
    await page.getByLabel('Project').selectOption(game.projectId);
    await page.getByText('Live.').waitFor();
    const { sessionId } = game;
    const [event] = (await game.post([anEvent({ sessionId, eventType: 'followed' })])).json();
    await page.getByRole('button', { name: 'followed' }).click();
    await page.getByRole('link', { name: 'Follow this event' }).click();
    const steps = page.locator('.steps li.done');
    await steps.nth(2).waitFor();
    await page.getByText(/^To no report/).waitFor();
    const { id } = (await game.report({ sessionId, report: { title: HOSTILE } })).json();
    await page.getByRole('link', { name: HOSTILE }).waitFor();
    expect(await violations(page)).toEqual([]);
    const [answered = '', inLog = '', inClickHouse = '', linked = ''] = await steps.allInnerTexts();
    expect(answered).toMatch(/^Answered\s+.*\d:\d\d/);
    expect(inLog).toMatch(/Partition \d+, offset \d+, event 0/);
    expect(inClickHouse).toMatch(/\+\d/);
    expect(linked).toContain(`Linked to ${HOSTILE}`);
    expect(await page.getByRole('link', { name: HOSTILE }).getAttribute('href')).toBe(`#/report/${id}`);
    await page
      .getByLabel('Event id')
      .fill(String(event.id).replace(/.$/, (last) => (last === '0' ? '1' : '0')));
    await page.getByRole('button', { name: 'Follow' }).click();
    await page.getByText('check that its request got a 201').waitFor();
    await page.getByLabel('Event id').fill('no id');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('This is not the id of an event').waitFor();
  });
});

/** Returns the title of the page and the number of elements that uploaded content could have added. */
async function elementsOf(page: Page): Promise<object> {
  return await page.evaluate<object>(`({
    pictures: document.querySelectorAll('main img').length,
    scripts: document.querySelectorAll('main script, main [onerror], main iframe, main object').length,
    headings: document.querySelectorAll('h1').length,
    title: document.title,
  })`);
}
