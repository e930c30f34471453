/** Tests the management of tenants, the health, and the quotas in the console in a real Chromium. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { anEvent, anUnknownId, events, eventually } from './builders.ts';
import { describeInChromium } from './chromium.ts';
import { aChromium } from './consolePage.ts';
import { send } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

describeInChromium('an operator', () => {
  const shared = sharedProduct();
  const chromium = aChromium();

  const post = async (token: string): Promise<number> => {
    const url = `${shared.product.credentials.baseUrl}/v1/ingest/events`;
    return (await send(url, 'POST', token, { body: anEvent() })).status;
  };

  const tenantOf = async (name: string) => {
    const answer = await shared.product.admin('GET', '/admin/tenants');
    const tenants: { id: string; name: string }[] = answer.json();
    return tenants.find((tenant) => tenant.name === name) ?? expect.fail(`no tenant ${name}`);
  };

  test('creates a tenant, a project, and a working token, changes the quota, and revokes the token', async () => {
    const permissions = ['clipboard-read', 'clipboard-write'];
    const page = await chromium.signedIn(shared.product, 'manage', { permissions });

    const name = `Studio ${anUnknownId()}`;
    const dialog = page.getByRole('dialog');
    const row = page.getByRole('row').filter({ hasText: name });
    await page.getByRole('button', { name: 'New tenant' }).click();
    await dialog.getByLabel('Events per month').fill('1.5');
    await page.keyboard.press('Enter');
    await expectProblem(page, 'Name', '“Name” must');
    await expectProblem(page, 'Events per month', '“Events per month” must be a whole number');
    await dialog.getByLabel('Name').fill(name);
    await dialog.getByLabel('Events per month').fill('1000');
    await page.keyboard.press('Enter');
    await row.getByText('1,000').waitFor();

    await page.getByRole('button', { name: 'New project' }).click();
    await dialog.getByLabel('Tenant').selectOption(name);
    await dialog.getByLabel('Name').fill(`Game of ${name}`);
    await dialog.getByLabel('Revision').selectOption('B');
    await dialog.getByLabel('Before a report').fill('999999');
    await page.keyboard.press('Enter');
    await expectProblem(page, 'Before a report', '“Seconds before a report” must be at most 86,400');
    expect(await dialog.getByRole('alert').count()).toBe(1);
    await dialog.getByLabel('Before a report').fill('30');
    await dialog.getByRole('button', { name: 'Create project' }).click();
    await row.getByText('30 s before, 0 s after').waitFor();
    await chooseProject(page, `Game of ${name}`);

    await page.getByRole('button', { name: 'New token' }).click();
    // A date without a time is invalid. The form must not treat it as an empty field, which means that the token never expires.
    await dialog.getByLabel('Expires').pressSequentially('12312126');
    await dialog.getByRole('button', { name: 'Create token' }).click();
    expect(await page.evaluate('document.activeElement.validity?.badInput')).toBe(true);
    await dialog.getByLabel('Expires').fill('');
    await dialog.getByRole('button', { name: 'Create token' }).click();
    const secret = (await dialog.locator('pre').textContent()) ?? '';
    await dialog.getByRole('button', { name: 'Copy' }).click();
    await dialog.getByText('Copied.').waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(secret);
    await page.keyboard.press('Escape');
    expect(await post(secret)).toBe(201);
    await page.reload();
    const revoke = page.getByRole('button', { name: /^Revoke: token/ });
    await revoke.waitFor();
    expect(await page.content()).not.toContain(secret);

    await page.getByRole('button', { name: `Edit: ${name}`, exact: true }).click();
    const { id } = await tenantOf(name);
    // Another operator changes the tenant while the dialog is open.
    await shared.product.admin('PATCH', `/admin/tenants/${id}`, { spread: 2 });
    await dialog.getByLabel('Events per month').fill('');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await row.getByText('no quota').waitFor();
    expect(await tenantOf(name)).toMatchObject({ monthlySoftQuota: null, spread: 2 });

    await revoke.click();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    expect(await post(secret)).toBe(201);
    await revoke.click();
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('No token yet.').waitFor();
    await eventually(
      () => post(secret),
      (status) => status === 401,
    );
  });

  test('creates a ClickHouse account for a project, replaces its password, and drops it', async () => {
    const gameName = `Game ${anUnknownId()}`;
    const game = await shared.aProject({ name: gameName });
    const page = await chromium.signedIn(shared.product, 'manage');
    await chooseProject(page, game.projectId);
    const dialog = page.getByRole('dialog');
    const answer = async (): Promise<number> => {
      const { origin, username, password } = new URL((await dialog.locator('pre').textContent()) ?? '');
      const headers = { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password };
      return (await fetch(`${origin}/?query=SELECT+1`, { headers })).status;
    };

    await page.getByRole('button', { name: 'New reader' }).click();
    await dialog.getByLabel('Rows').selectOption(`${gameName}, ${gameName}`);
    await dialog.getByLabel('Name').fill('Grafana');
    await dialog.getByRole('button', { name: 'Create reader' }).click();
    await dialog.getByText('shown only once').waitFor();
    expect(await answer()).toBe(200);
    await page.keyboard.press('Escape');

    await page.getByRole('button', { name: /^New password: reader-/ }).click();
    await dialog.getByRole('button', { name: 'Replace' }).click();
    await dialog.getByText('shown only once').waitFor();
    expect(await answer()).toBe(200);
    await page.keyboard.press('Escape');

    await page.getByRole('button', { name: /^Drop: reader-/ }).click();
    await dialog.getByRole('button', { name: 'Drop' }).click();
    await page.getByText('No reader yet.').waitFor();
  });

  test('adds a switch in front of the others, and removes exactly the chosen switch', async () => {
    const game = await shared.aProject();
    const path = `/admin/projects/${game.projectId}/switches`;
    const reason = `the flood of ${anUnknownId()}`;
    const spam = { eventType: 'spam', action: 'reject', reason };
    await shared.product.admin('PUT', path, [spam]);
    const reasons = async (): Promise<string[]> =>
      (await shared.product.admin('GET', path)).json().map((one: { reason: string }) => one.reason);
    const page = await chromium.signedIn(shared.product, 'manage');
    await chooseProject(page, game.projectId);
    const dialog = page.getByRole('dialog');
    const row = page.getByRole('region', { name: 'Switches' }).getByRole('row');
    expect(await row.filter({ hasText: reason }).textContent()).toMatch(
      /rejects.*spam.*removed by an operator/,
    );

    await page.getByRole('button', { name: 'New switch' }).click();
    await dialog.getByLabel('Action').selectOption('keep a sample of the sessions');
    await dialog.getByLabel('Reason').fill('too many');
    await dialog.getByRole('button', { name: 'Add switch' }).click();
    await expectProblem(page, 'Sessions to keep', 'sample needs');
    await dialog.getByLabel('Sessions to keep').fill('5');
    await dialog.getByRole('button', { name: 'Add switch' }).click();
    await row.filter({ hasText: 'too many' }).getByText('keeps 5\u00a0% of the sessions').waitFor();
    expect(await reasons()).toEqual(['too many', reason]);

    // Adds another switch before the others while the dialog is open. Questlog must not remove the added switch.
    await page.getByRole('button', { name: `Remove: ${reason}` }).click();
    const ham = { eventType: 'ham', action: 'reject', reason: 'newer' };
    await shared.product.admin('PUT', path, [ham, spam]);
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await reasons()).toEqual(['newer']);
  });

  test('changes the rate limits, the suspension, and the retention of a project', async () => {
    const game = await shared.aProject();
    const page = await chromium.signedIn(shared.product, 'manage');
    await chooseProject(page, game.projectId);
    const dialog = page.getByRole('dialog');
    const projects = page.getByRole('region', { name: 'Projects' });
    await projects.getByRole('button', { name: /^Limits/ }).click();
    await dialog.getByLabel('Events per second').fill('0');
    await page.keyboard.press('Enter');
    await expectProblem(page, 'Events per second', '“Events per second” must be at least 1');
    await dialog.getByLabel('Events per second').fill('1000');
    await dialog.getByLabel('Suspended').check();
    await page.keyboard.press('Enter');
    await projects.getByText('1,000 events/s').waitFor();
    await projects.getByText('suspended', { exact: true }).waitFor();
    await eventually(
      async () => (await game.post(anEvent())).json().code,
      (code) => code === 'suspended',
    );
    await projects.getByRole('button', { name: /^Retention/ }).click();
    await dialog.getByLabel('Bug reports').fill('30');
    await page.keyboard.press('Enter');
    await projects.getByText('keeps bug reports 30 days').waitFor();

    await projects.getByRole('button', { name: /^Limits/ }).click();
    await dialog.getByLabel('Events per second').fill('');
    await dialog.getByLabel('Suspended').uncheck();
    await page.keyboard.press('Enter');
    await projects.getByText('no limits').waitFor();
    const listed: { id: string }[] = (await shared.product.admin('GET', '/admin/projects')).json();
    expect(listed.find(({ id }) => id === game.projectId)).toMatchObject({
      ...{ limits: null, suspended: false },
      retentionDays: { events: null, sessions: null, reports: 30, links: null, uploads: null },
    });
  });

  test('limits and suspends a tenant', async () => {
    const game = await shared.aProject();
    const page = await chromium.signedIn(shared.product, 'manage');
    await chooseProject(page, game.projectId);
    const tenants = page.getByRole('region', { name: 'Tenants' });
    await tenants.getByRole('button', { name: /^Limits/ }).click();
    await page.getByRole('dialog').getByLabel('Requests per second').fill('50');
    await page.getByRole('dialog').getByLabel('Suspended').check();
    await page.keyboard.press('Enter');
    await tenants.getByText('50 requests/s').waitFor();
    await tenants.getByText('suspended', { exact: true }).waitFor();
  });

  test('rotates a token, and the old token stays valid for the overlap', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const page = await chromium.signedIn(shared.product, 'manage');
    await chooseProject(page, game.projectId);
    const dialog = page.getByRole('dialog');
    const rotate = page.getByRole('button', { name: /^Rotate: token/ });
    await rotate.click();
    expect(await dialog.getByLabel('Overlap').inputValue()).toBe('24');
    await dialog.getByRole('button', { name: 'Rotate token' }).click();
    const secret = (await dialog.locator('pre').textContent()) ?? '';
    expect(await post(secret)).toBe(201);
    await page.keyboard.press('Escape');
    await page.getByText('in 23 h').waitFor();
    expect((await game.post(anEvent())).status).toBe(201);
    // Only the new token can be rotated again.
    expect(await rotate.count()).toBe(1);
  });

  test.each(['A', 'B'] as const)(
    'sends a test event to a project of revision %s and sees the stored event',
    async (revision) => {
      const game = await shared.aProject({ revision });
      const page = await chromium.signedIn(shared.product, 'manage');
      await chooseProject(page, game.projectId);
      for (const times of [1, 2]) {
        await page.getByRole('button', { name: 'Send test event' }).click();
        await page.getByText(/In ClickHouse after \d+ ms/).waitFor();
        const [stored] = await shared.product.sql(
          `SELECT event_type, toString(count()) AS events, toString(uniqExact(session_id)) AS sessions FROM events
         WHERE project_id = '${game.projectId}' GROUP BY event_type`,
        );
        expect(stored).toEqual({ event_type: 'questlog.test', events: `${times}`, sessions: '1' });
      }
      const link = await page.getByRole('link', { name: 'Follow this event' }).getAttribute('href');
      const id = link?.replace('#/follow/', '');
      expect((await game.get(`/v1/events/${id}`)).json()).toMatchObject({ id, eventType: 'questlog.test' });
    },
  );

  test('gets a 404 for a test event to an unknown project', async () => {
    const answer = await shared.product.admin('POST', `/admin/projects/${anUnknownId()}/test-event`);
    expect([answer.status, answer.json().code]).toEqual([404, 'not_found']);
  });

  test('sees a tenant’s used quota and its events over quota', async () => {
    const game = await shared.aProject({ revision: 'B', monthlySoftQuota: 3 });
    await game.post(events(5));
    const unlimited = await shared.aProject({ revision: 'B' });
    const page = await chromium.signedIn(shared.product, 'quota');
    await chooseProject(page, game.projectId);
    await page.getByRole('img', { name: 'a studio: 5 of 3 events, 2 over quota' }).waitFor();
    await page.getByText('2 over quota', { exact: true }).waitFor();
    await page.getByText(/Forecast for the end of the month: [1-9]/).waitFor();
    await page.getByRole('img', { name: /by UTC day.*: 5 in total/ }).waitFor();

    await chooseProject(page, unlimited.projectId);
    await page.getByText('events, no quota').waitFor();
    expect(await page.locator('.gauge svg').count()).toBe(0);
  });

  test('sees that the state is unknown while Questlog does not answer', async () => {
    const page = await chromium.signedIn(shared.product, 'tail');
    for (const path of ['lag', 'ledger*']) await page.route(`**/admin/${path}`, (route) => route.abort());
    await page.goto(`${shared.product.credentials.adminUrl}/#/health`);
    const verdict = page.getByRole('status', { name: 'Verdict' });
    await verdict.getByText('The state is unknown').waitFor();
    expect(await verdict.getAttribute('class')).not.toContain('good');
    for (const name of ['Unaccounted events', 'Disk, free']) {
      expect(await page.getByRole('group', { name }).textContent()).toBe(`${name}–unknown`);
    }
    await page.getByText('The lag is unknown.').waitFor();
    await page.unroute('**/admin/lag');
    await page.getByRole('region', { name: 'Consumers of the log' }).waitFor();
    // The ledger still cannot be read at this time.
    await verdict.getByText('The state is unknown').waitFor();
  });

  test('sees the lag of each consumer and the rate of events', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const page = await chromium.signedIn(shared.product, 'health');
    const consumers = page.getByRole('region', { name: 'Consumers of the log' }).locator('tbody tr');
    await consumers.nth(5).waitFor();
    expect(await consumers.count()).toBe(7);
    const rate = page.getByRole('group', { name: 'Events per second' }).locator('strong');
    await eventually(
      async () => {
        await game.post(events(200));
        return Number.parseFloat((await rate.textContent()) ?? '');
      },
      (perSecond) => perSecond > 0,
    );
    await page.getByRole('group', { name: 'Response time, p99' }).getByText(/\d ms/).waitFor();
    await page.getByRole('img', { name: /^Events and requests/ }).waitFor();
  });
});

async function chooseProject(page: Page, project: string): Promise<void> {
  await page.getByRole('banner').getByRole('combobox').selectOption(project);
}

/** Expects that the problem is next to the field and in the accessible description of the field. */
async function expectProblem(page: Page, label: string, begin: string): Promise<void> {
  const field = page.getByRole('dialog').getByLabel(label);
  await page.getByRole('dialog').getByText(begin).waitFor();
  expect(await field.getAttribute('aria-invalid')).toBe('true');
  const ids = (await field.getAttribute('aria-describedby'))?.split(' ') ?? [];
  const described = await Promise.all(ids.map((id) => page.locator(`#${id}`).textContent()));
  expect(described.join(' ')).toContain(begin);
}
