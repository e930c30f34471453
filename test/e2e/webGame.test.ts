/** Tests `examples/web-game` in a real Chromium. The test plays the game with keys. A report must contain the earlier moves. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { eventually, type TestProject } from './builders.ts';
import { hasChromium, launchChromium } from './chromium.ts';
import { sharedProduct } from './sharedProduct.ts';

interface NotedEvent {
  readonly eventType: string;
  readonly payload: object;
}

const SERVE = fileURLToPath(new URL('../../examples/web-game/serve.mjs', import.meta.url));
const shared = sharedProduct();

test('a game is played with keys, and F8 files a report with its picture and its moves in order; a failure is shown', async ({
  skip,
}) => {
  if (!hasChromium) return skip('there is no chromium');
  const game = await shared.aProject({ revision: 'A' });
  const browser = await launchChromium();
  onTestFinished(() => browser.close());
  const page = await browser.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  await page.goto(await served(game));
  await page.getByText('Catch the stars').waitFor();
  await page.keyboard.press('ArrowLeft');
  for (let dash = 0; dash < 3; dash += 1) await page.keyboard.press('Space');
  await page.keyboard.press('F8');
  const link = await page.getByRole('link', { name: /console/ }).getAttribute('href');
  const [, id = ''] = /#\/report\/([0-9a-f-]{36})$/.exec(link ?? '') ?? [];

  expect(link).toBe(`${shared.product.credentials.adminUrl}/#/report/${id}`);
  const trail = await eventually(
    async (): Promise<NotedEvent[]> => (await game.get(`/v1/reports/${id}/events`)).json().events ?? [],
    (events) => events.filter(({ eventType }) => eventType === 'player_action').length === 3,
  );
  const moves = trail.filter(({ eventType }) => ['checkpoint', 'player_action'].includes(eventType));
  expect(moves).toMatchObject([
    { eventType: 'checkpoint', payload: { level: 1, reached: 'begin' } },
    ...Array.from({ length: 3 }, () => ({ eventType: 'player_action', payload: { action: 'dash' } })),
  ]);
  const report = (await game.get(`/v1/reports/${id}`)).json();
  expect(report).toMatchObject({
    report: { title: 'Something is wrong in level 1', reporterType: 'player' },
    context: { sceneName: 'level 1' },
    attachments: [{ attachmentType: 'screenshot', state: 'stored' }],
    sequence: { missing: [] },
  });
  const picture = await game.get(`/v1/uploads/${report.attachments[0].uploadId}`);
  expect(picture.bytes.toString('latin1')).toMatch(/^\x89PNG/);

  const headers = { 'Access-Control-Allow-Origin': '*' };
  const body = JSON.stringify({ type: 'urn:questlog:problem:unauthorized', code: 'unauthorized' });
  await page.route('**/v1/ingest/**', (route) => route.fulfill({ status: 401, headers, body }));
  await page.keyboard.press('F8');
  await page.getByText('The report is not filed').waitFor();
  expect(problems).toEqual([]);
});

/** Starts the server of the game and returns the address that the server prints. */
async function served({ token }: TestProject): Promise<string> {
  const { baseUrl, adminUrl } = shared.product.credentials;
  const env = {
    ...process.env,
    QUESTLOG_URL: baseUrl,
    QUESTLOG_TOKEN: token,
    QUESTLOG_ADMIN_URL: adminUrl,
  };
  const child = spawn(process.execPath, [SERVE, '0'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill());
  const [printed] = await once(child.stdout, 'data');
  return /http:\S+/.exec(String(printed))?.[0] ?? '';
}
