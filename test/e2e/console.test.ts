/** Tests the console in a real Chromium: sign-in, sign-out, restarts, SQL queries, and the accessibility of every page. */
import type { Route } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { questionsOfGuide } from '../dataGuide/guidePage.ts';
import { anEvent, anUnknownId, events } from './builders.ts';
import { describeInChromium } from './chromium.ts';
import { aChromium, violations } from './consolePage.ts';
import { removeDataDir, startProduct } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const MAX_PAGE_BYTES = 150_000;

describeInChromium('an operator at the console', () => {
  const shared = sharedProduct();
  const chromium = aChromium();

  test('signs in by hand, sees that a token is wrong, and signs out', async () => {
    const page = await chromium.page();
    const { adminUrl, adminToken } = shared.product.credentials;
    const unauthorized: string[] = [];
    page.on('response', (response) => response.status() === 401 && unauthorized.push(response.url()));
    await page.goto(adminUrl);
    await page.getByLabel('Admin token').waitFor();
    expect(unauthorized).toEqual([]);
    await page.getByLabel('Admin token').fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This is not the admin token.').waitFor();
    await page.getByLabel('Admin token').fill(adminToken);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.goto(`${adminUrl}/#token=${adminToken}`);
    await page.waitForURL(`${adminUrl}/#/overview`);
    const signOut = page.getByRole('button', { name: 'Sign out' });

    await signOut.waitFor();
    // Ends the session while the page still shows the signed-in state. The token in the URL must sign in despite that.
    await page.context().clearCookies();
    const isSignedIn = page.waitForResponse('**/login');
    await page.goto(`${adminUrl}/#token=${adminToken}`);
    await isSignedIn;
    await page.reload();
    await signOut.waitFor();

    await page.route('**/logout', (route) => route.abort());
    await signOut.click();
    await page.getByRole('alert').getByText('Questlog does not answer').waitFor();
    await page.unroute('**/logout');
    // Sets a URL with a token in the same task in which the form appears. The form must use the token, not the page before the
    // form.
    const isGiven = page.evaluate(`new Promise((resolve) => {
      new MutationObserver((_, observer) => {
        if (document.querySelector('#token') === null) return;
        observer.disconnect();
        location.hash = '#token=${adminToken}';
        resolve();
      }).observe(document.body, { childList: true, subtree: true });
    })`);
    await signOut.click();
    await isGiven;
    await page.waitForURL(`${adminUrl}/#/overview`);
    await signOut.click();
    await page.getByLabel('Admin token').waitFor();
    await page.reload();
    await page.getByLabel('Admin token').waitFor();
  });

  test('sees the page of a URL that ends in the middle of an escape', async () => {
    const page = await chromium.signedIn(shared.product, 'report/%E0%A4');
    await page.getByRole('heading', { name: 'Report', exact: true }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Report', exact: true }).waitFor();
  });

  test('sees that the connection was lost, and new events after Questlog is back', async () => {
    const first = await startProduct();
    let last = first;
    onTestFinished(async () => {
      await last.stop();
      await removeDataDir(last);
    });
    const page = await chromium.signedIn(first, 'tail');
    await page.getByText('Live.').waitFor();
    expect(await first.stop()).toBe(0);
    await page.getByText('The connection was lost').waitFor();
    const [QUESTLOG_PORT, QUESTLOG_ADMIN_PORT] = [first.credentials.baseUrl, first.credentials.adminUrl].map(
      (url) => new URL(url).port,
    );
    last = await startProduct({ dataDir: first.dataDir, env: { QUESTLOG_PORT, QUESTLOG_ADMIN_PORT } });
    await page.getByText('Live.').waitFor();
    const { sessionId } = last.credentials;
    await last.request('POST', '/v1/ingest/events', { body: anEvent({ sessionId, eventType: 'after' }) });
    await page.getByRole('button', { name: 'after' }).waitFor();
  });

  test('sees the nodes of a ClickHouse cluster on the page Health, but no such table for a single server', async () => {
    const page = await chromium.signedIn(shared.product, 'tail');
    const answered = page.waitForResponse('**/admin/clickhouse/nodes');
    await page.goto(`${shared.product.credentials.adminUrl}/#/health`);
    expect(await (await answered).json()).toEqual([]);
    await page.getByRole('region', { name: 'Consumers of the log' }).waitFor();
    const nodes = page.getByRole('region', { name: 'Nodes of ClickHouse' });
    expect(await nodes.count()).toBe(0);
    await page.route('**/admin/clickhouse/nodes', (route) => route.abort(), { times: 1 });
    await page.reload();
    await page.getByRole('heading', { name: 'Nodes of ClickHouse' }).waitFor();
    const node = { url: 'http://ch-1:8123', shard: '1', replica: 'a', problem: null };
    const unknown = { shard: null, replica: null, queueLength: null, lagSeconds: null, hasKeeper: null };
    await page.route('**/admin/clickhouse/nodes', (route) =>
      route.fulfill({
        json: [
          { ...node, queueLength: 1_234, lagSeconds: 7, hasKeeper: true },
          { ...node, ...unknown, url: 'http://ch-2:8123', problem: 'does not answer' },
        ],
      }),
    );
    await page.reload();
    await nodes.getByRole('row', { name: '1 a http://ch-1:8123 usable connected 1,234 7 s' }).waitFor();
    await nodes.getByRole('row', { name: '– – http://ch-2:8123 does not answer – – –' }).waitFor();
    expect(await violations(page)).toEqual([]);
  });

  test('runs SQL, sees a table or a chart, and reads ClickHouse’s message for an error', async () => {
    const game = await shared.aProject();
    const page = await chromium.signedIn(shared.product, 'ask');
    const editor = page.getByLabel('SQL query');
    await editor.fill(
      "SELECT toDateTime('2026-01-01 00:00:00', 'UTC') + number AS t, 9007199254740993 + number AS n FROM numbers(3)",
    );
    await editor.press('Control+Enter');
    await page.getByRole('cell', { name: '9007199254740995' }).waitFor();
    await page.getByRole('button', { name: 'Show as chart' }).click();
    await page.locator('.uplot canvas').waitFor();
    // The legend shows the newest value if no pointer is over the chart.
    expect(await page.locator('.u-legend').textContent()).toContain('9,007,199,254,740,99');
    await page.getByRole('button', { name: 'Show as table' }).click();
    const saved = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save as CSV' }).click();
    expect((await saved).suggestedFilename()).toBe('questlog.csv');
    await page.getByLabel('Project').selectOption(game.projectId);
    await editor.fill('SELECT {project:UUID} AS chosen, {word:String} AS said, NULL AS nothing');
    await page.getByLabel('word').fill("it's");
    // Selects a project after a value was typed. The project must replace the typed value.
    await page.getByLabel('project', { exact: true }).fill('typed');
    const projects = page.getByRole('banner').getByRole('combobox');
    await projects.selectOption('');
    await expect.poll(() => page.getByLabel('project', { exact: true }).inputValue()).toBe('');
    await editor.press('Control+Enter');
    await page.getByRole('alert').getByText('Select a project').waitFor();
    await projects.selectOption(game.projectId);
    await editor.press('Control+Enter');
    await page.getByRole('row', { name: `${game.projectId} it's –` }).waitFor();
    await editor.fill('SELECT nothing');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('alert').getByText('nothing').waitFor();

    // Delays the older answer, so that it arrives last. It must not appear under the newer query.
    const requests: Route[] = [];
    await page.route('**/admin/sql', (route) => void requests.push(route));
    for (const query of ["SELECT 'older'", "SELECT 'newer'"]) {
      await editor.fill(query);
      await editor.press('Control+Enter');
    }
    await expect.poll(() => requests.length).toBe(2);
    await requests[1]?.continue();
    await page.getByRole('cell', { name: 'newer' }).waitFor();
    const older = page.waitForResponse('**/admin/sql');
    await requests[0]?.continue();
    await (await older).finished();
    expect(await page.getByRole('cell').allTextContents()).toEqual(['newer']);
    await page.unroute('**/admin/sql');
    await editor.fill("SELECT 'not run yet'");
    await page.goto(`${shared.product.credentials.adminUrl}/#/health`);
    await page.goto(`${shared.product.credentials.adminUrl}/#/ask`);
    await expect.poll(() => editor.inputValue()).toBe("SELECT 'not run yet'");
  });

  test('runs a question of the data guide, and sees counts per category as bars', async () => {
    const game = await shared.aProject();
    await game.post([anEvent({ sessionId: game.sessionId })]);
    const page = await chromium.signedIn(shared.product, 'ask');
    await page.getByLabel('Project').selectOption(game.projectId);
    const questions = page.getByRole('region', { name: 'Questions' }).getByRole('button');
    await questions.first().waitFor();
    expect(await questions.allTextContents()).toEqual(questionsOfGuide().map(({ title }) => title));
    await questions.getByText('How many players play each day?').click();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('columnheader', { name: 'players' }).waitFor();
    await page.getByText('1 row in').waitFor();

    const counts = "SELECT ['jump', 'crash'][number + 1] AS type, 4 - 3 * number AS count FROM numbers(2)";
    await page.getByLabel('SQL query').fill(counts);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('button', { name: 'Show as chart' }).click();
    const bars = page.getByRole('region', { name: 'Query result as bars' }).getByRole('row');
    await bars.nth(2).waitFor();
    expect(await bars.allTextContents()).toEqual(['CategoryBarValue', 'jump4', 'crash1']);
    expect(await page.getByRole('meter', { name: 'crash' }).getAttribute('max')).toBe('4');
    // Analysts find their tables before the tables for operators.
    const [tables, comment] = [
      page.locator('aside summary'),
      'JSON object as the game sent it, byte for byte; read it with JSONExtract functions',
    ];
    await expect.poll(() => tables.first().textContent()).toBe('events');
    await tables.first().click();
    expect(await tables.first().getAttribute('title')).not.toBe('');
    const column = page.locator('aside').getByRole('button', { name: 'payload', exact: true });
    expect(await column.first().getAttribute('title')).toBe(comment);
    expect(await violations(page)).toEqual([]);
  });

  test('sees a line for each category of an answer, and reads how to keep a query within its limits', async () => {
    const page = await chromium.signedIn(shared.product, 'ask');
    const run = async (query: string): Promise<void> => {
      await page.getByLabel('SQL query').fill(query);
      await page.getByRole('button', { name: 'Run', exact: true }).click();
    };
    await run(`SELECT toDate('2026-01-01') + intDiv(number, 2) AS day, ['jump', 'crash'][number % 2 + 1] AS type,
      10 + number AS events FROM numbers(4) ORDER BY day, type`);
    await page.getByRole('button', { name: 'Show as chart' }).click();
    await page.locator('.uplot canvas').waitFor();
    const legend = page.locator('.u-legend');
    expect(await legend.textContent()).toMatch(/crash.*13.*jump.*12/);

    await run('SELECT groupArray(number) FROM numbers(100000000)');
    await page
      .getByRole('alert')
      .getByText('The query’s memory limit is 96 MiB: select fewer columns')
      .waitFor();
    await run(
      'SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1 SETTINGS max_execution_time = 1',
    );
    await page
      .getByRole('alert')
      .getByText(/maximum: 1000 ms.* Filter, or aggregate less\./)
      .waitFor();
  });

  test('sees the late result of a poll: an answer, a failure, or no answer', async () => {
    const page = await chromium.signedIn(shared.product, 'tail');
    const requests: Route[] = [];
    await page.route('**/admin/lag', (route) => void requests.push(route));
    await page.clock.install();
    const tick = () => Promise.all([page.waitForResponse('**/admin/traffic'), page.clock.fastForward(2_000)]);
    const alert = page.getByRole('alert');
    await page.goto(`${shared.product.credentials.adminUrl}/#/health`);
    await expect.poll(() => requests.length).toBe(1);
    await tick();
    await requests[0]?.continue();
    await page.getByText('Records behind').waitFor();

    await tick();
    await expect.poll(() => requests.length).toBe(2);
    await tick();
    await requests[1]?.fulfill({ status: 503, json: { detail: 'Kafka does not answer' } });
    await alert.getByText('Kafka does not answer').waitFor();
    const verdict = page.getByRole('status', { name: 'Verdict' });
    await verdict.getByText('The state is unknown').waitFor();

    await tick();
    await expect.poll(() => requests.length).toBe(3);
    await page.clock.fastForward(30_000);
    await alert.getByText('Questlog has not answered for 30 seconds').waitFor();
  });

  test('sees a game’s typo within seconds, with the field and a sample, and the ignored fields', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const page = await chromium.signedIn(shared.product, 'rejects');
    await page.getByRole('combobox', { name: 'Project' }).selectOption(game.projectId);
    await page.getByText('Nothing was rejected or ignored').waitFor();
    expect(await violations(page)).toEqual([]);

    const other = await shared.aProject({ revision: 'A' });
    await other.post(events(500));
    await game.post([{ evenType: 'jump' }, { evenType: 'jump' }]);
    await game.post(anEvent({ userId: '<b>7</b>' }));
    const rejected = page.getByRole('region', { name: 'Rejected' }).getByRole('row').nth(1);
    const ignored = page.getByRole('region', { name: 'Ignored fields' }).getByRole('row').nth(1);
    await ignored.waitFor();
    const [field, sample, problem, times, requests] = await rejected.getByRole('cell').allTextContents();
    expect([field, problem, times, requests, sample]).toEqual([
      ...['/eventTypePOST /v1/ingest/events', 'field_required', '2', '1', '{"evenType":"jump"}'],
    ]);
    const meaning = rejected.getByRole('link', { name: 'field_required' });
    expect(await meaning.getAttribute('href')).toMatch(/\/docs\/reference\/problems\.md#field_required$/);
    expect(await ignored.getByText('"<b>7</b>"', { exact: true }).count()).toBe(1);
    expect(await ignored.textContent()).toContain('in an event of type checkpoint');
    await game.post(anEvent({ occurredAt: '1970-01-01T00:00:00Z' }));
    const warned = page.getByRole('region', { name: 'Warnings' }).getByRole('row').nth(1);
    await warned.waitFor();
    expect(await warned.textContent()).toMatch(/occurredAtPOST .*"1970-01-01T00:00:00Z".*time_before_2015/);
    await page.locator('.uplot canvas').waitFor();
    expect(await violations(page)).toEqual([]);

    await game.post({ evenType: 'fall' });
    await rejected.getByRole('cell', { name: '3', exact: true }).waitFor();
    await page.getByRole('combobox', { name: 'Time' }).selectOption('Last 7 days');
    await rejected.getByRole('cell', { name: '/eventType' }).waitFor();
    const others = page.getByRole('cell', { name: '/sessionId' });
    expect(await others.count()).toBe(0);
    await page.getByRole('combobox', { name: 'Project' }).selectOption('');
    await others.first().waitFor();
    const table = page.getByRole('region', { name: 'Rejected' });
    expect(await table.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0);
  });

  test('reads the reason of a dead letter, opens it, and replays it', async () => {
    const page = await chromium.signedIn(shared.product, 'tail');
    await page.clock.install();
    const [id, newer] = [anUnknownId(), anUnknownId()];
    const deadLetter = {
      ...{ id, state: 'open', deadAt: '2026-11-21T18:30:00.000Z', decidedAt: null, group: 'a-group' },
      ...{
        topic: 'a.topic',
        partition: 3,
        offset: 7,
        valueBytes: 9,
        key: 'a tenant',
        reason: 'no such schema',
      },
    };
    let deadLetters = [deadLetter];
    const replays: string[] = [];
    await page.route('**/admin/dead-letters**', async (route) => {
      const path = new URL(route.request().url()).pathname;
      if (path.endsWith('/replay')) {
        replays.push(`${route.request().method()} ${path}`);
        deadLetters = [];
      }
      const isList = path === '/admin/dead-letters';
      await route.fulfill({
        json: isList
          ? { deadLetters, next: null, open: 1 }
          : { ...deadLetter, value: { eventType: 'boss_down' } },
      });
    });
    await page.goto(`${shared.product.credentials.adminUrl}/#/letters`);
    await page.getByRole('cell', { name: 'no such schema' }).waitFor();
    expect(await violations(page)).toEqual([]);

    // A refresh must keep the focus on the dead letter and the text in the filter.
    await page.getByRole('button', { name: `Discard: ${id}` }).focus();
    deadLetters = [{ ...deadLetter, id: newer }, deadLetter];
    await page.clock.fastForward(5_000);
    await page.getByRole('button', { name: `Discard: ${newer}` }).waitFor();
    expect(await page.evaluate('document.activeElement.ariaLabel')).toBe(`Discard: ${id}`);
    await page.getByLabel('Cause').pressSequentially('no such');
    deadLetters = [deadLetter];
    await page.clock.fastForward(5_000);
    await page.getByRole('button', { name: `Discard: ${newer}` }).waitFor({ state: 'detached' });
    expect(await page.getByLabel('Cause').inputValue()).toBe('no such');
    await page.getByRole('button', { name: `Show: ${id}` }).click();
    await page.getByText('boss_down').waitFor();
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: `Replay: ${id}` }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Replay', exact: true }).click();
    await page.getByText('No dead letters.').waitFor();
    expect(replays).toEqual([`POST /admin/dead-letters/${id}/replay`]);
  });

  // `consoleSimulated.test.ts` checks the accessibility of these pages.
  test('gets small pages, loaded only from this Questlog', async () => {
    const page = await chromium.signedIn(shared.product, 'tail');
    const paths = await page
      .getByRole('navigation')
      .getByRole('link')
      .evaluateAll((links) => links.map((link) => String(link.getAttribute('href'))));
    expect(paths.length).toBeGreaterThan(1);

    const fresh = await chromium.page();
    const { adminUrl, adminToken } = shared.product.credentials;
    const files: Promise<number>[] = [];
    const foreignUrls: string[] = [];
    fresh.on('response', (response) => {
      if (!response.url().startsWith(adminUrl)) foreignUrls.push(response.url());
      // A response has no body if it arrives after the browser has left the page.
      const size = response.body().then(
        ({ length }) => length,
        () => 0,
      );
      if (/\/ui\/|\/$/.test(response.url())) files.push(size);
    });
    await fresh.goto(`${adminUrl}/#token=${adminToken}`);
    await fresh
      .getByText('Good')
      .or(fresh.getByText(/^\d+ problems?$/))
      .waitFor();
    const sharedFiles = files.length;
    for (const path of paths) {
      const before = files.length;
      await fresh.goto(`${adminUrl}/${path}`);
      await fresh.locator(`nav a[aria-current][href="${path}"]`).waitFor();
      await fresh.getByText('Loading…').waitFor({ state: 'hidden' });
      const sizes = await Promise.all([...files.slice(0, sharedFiles), ...files.slice(before)]);
      const bytes = sizes.reduce((sum, size) => sum + size);
      expect(bytes, path).toBeGreaterThan(20_000);
      expect(bytes, path).toBeLessThan(MAX_PAGE_BYTES);
    }
    expect(foreignUrls).toEqual([]);
  });
});
