/** Tests GET /docs in a real Chromium. The page sends real requests, and the test runs the code samples of the page. */
import { execFileSync } from 'node:child_process';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { TestProject } from './builders.ts';
import { describeInChromium, launchChromium } from './chromium.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();

describeInChromium('the API page', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test('sends a session and its event with a token, shows code samples, and contacts no other machine', async () => {
    const { baseUrl } = shared.product.credentials;
    const game = await shared.aProject({ revision: 'A' });
    const page = await browser.newPage();
    onTestFinished(() => page.close());
    const requestUrls: string[] = [];
    const errors: string[] = [];
    page.on('request', (request) => requestUrls.push(request.url()));
    page.on('console', (message) => {
      if (message.type() === 'error') errors.push(message.text());
    });
    await page.goto(`${baseUrl}/`);
    await page.click('.auth-wrapper .authorize');
    expect(await page.textContent('.auth-container')).toContain('npx questlog tokens create');
    await page.fill('#auth-bearer-value', game.token);
    await page.click('.auth-btn-wrapper .authorize');
    await page.click('.auth-btn-wrapper .btn-done');

    expect(await execute(page, '/v1/ingest/sessions')).toMatch(/^201/);
    expect(await execute(page, '/v1/ingest/events')).toMatch(/^201/);
    const text = await page.textContent(operation('/v1/ingest/events'));
    expect(text).toContain('Register the session first with POST /v1/ingest/sessions');
    const [event] = (await game.get('/v1/events')).json().events;
    expect(event).toMatchObject({ eventType: 'checkpoint', payload: { level: 3 } });
    const samples = page.locator(`${operation('/v1/ingest/events')} details`);
    expect(await samples.allTextContents()).toEqual(
      ['curl', 'TypeScript', 'C#', 'C++', 'GDScript'].map((name) => expect.stringContaining(name)),
    );
    expect(requestUrls.filter((url) => !url.startsWith(baseUrl) && !url.startsWith('data:'))).toEqual([]);
    expect(errors).toEqual([]);
  });
});

test('the curl and TypeScript samples perform their operations, one after another', async () => {
  const { baseUrl } = shared.product.credentials;
  const document = JSON.parse(await (await fetch(`${baseUrl}/openapi.json`)).text());
  const inShell = await shared.aProject({ revision: 'A' });
  const inScript = await shared.aProject({ revision: 'A' });
  for (const path of ['sessions', 'events', 'uploads', 'reports']) {
    const samples: { lang: string; source: string }[] =
      document.paths[`/v1/ingest/${path}`].post['x-codeSamples'];
    const of = (lang: string): string => samples.find((one) => one.lang === lang)?.source ?? '';

    expect([path, run(of('Shell'), inShell)]).toEqual([path, expect.stringMatching(/ 201$/)]);
    expect([path, await evaluate(of('TypeScript'), inScript)]).toEqual([path, 201]);
  }
  for (const { get } of [inShell, inScript]) {
    expect((await get('/v1/reports')).json().reports).toMatchObject([{ report: { severity: 'high' } }]);
  }
});

const operation = (path: string): string => `.opblock:has([data-path="${path}"])`;

/** Sends the example request of a POST. @returns the status that the page shows */
async function execute(page: Page, path: string): Promise<string | null> {
  await page.click(`${operation(path)} .opblock-summary`);
  await page.click(`${operation(path)} .execute`);
  return await page.textContent(`${operation(path)} .live-responses-table tbody .response-col_status`);
}

function run(command: string, { token }: TestProject): string {
  const env = { ...process.env, QUESTLOG_URL: shared.product.credentials.baseUrl, QUESTLOG_TOKEN: token };
  return execFileSync('sh', ['-c', `${command} -w ' %{http_code}'`], { env, encoding: 'utf8' });
}

/** Runs a code sample. @returns the status that the sample prints */
async function evaluate(source: string, { token }: TestProject): Promise<unknown> {
  const code = `return (async () => { let status; const console = { log: (first) => { status = first; } };\n${source}\nreturn status; })()`;
  return await new Function('url', 'token', code)(shared.product.credentials.baseUrl, token);
}
