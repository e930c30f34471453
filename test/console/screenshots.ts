/** Implements `npm run docs:screenshots`: saves a screenshot of each page of the console during a simulated game. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chromium, type Page } from 'playwright-core';
import { removeDataDir, startProduct } from '../e2e/product.ts';
import { findProgram } from '../games/gamePages.ts';

const FOLDER = fileURLToPath(new URL('../../docs/images/', import.meta.url));
/** Time until the rates on a page are typical. */
const SETTLE_MS = 4_000;
const PAST = ['simulate', '--players', '40', '--days', '6', '--speed', 'max', '--seed', '7'];
const NOW = ['simulate', '--players', '80', '--minutes', '2', '--seed', '8'];

const LAUNCHER = fileURLToPath(new URL('../../services/cli/questlog.mjs', import.meta.url));

/** Prepares a page for its screenshot. */
const READY: Readonly<Record<string, (page: Page) => Promise<void>>> = {
  overview: (page) => page.getByRole('region', { name: 'Newest reports' }).waitFor({ timeout: 90_000 }),
  tail: (page) => page.locator('tbody tr').nth(15).waitFor({ timeout: 90_000 }),
  rejects: async (page) => {
    const { sessionId } = product.credentials;
    for (const body of TYPOS)
      await product.request('POST', '/v1/ingest/events', { body: { sessionId, ...body } });
    await page.getByRole('region', { name: 'Ignored fields' }).waitFor();
  },
  ask: (page) => page.getByRole('button', { name: 'Run', exact: true }).click(),
};

/** Events with typical mistakes of a game. */
const TYPOS = [
  ...Array.from({ length: 9 }, (_, level) => ({ evenType: 'level_begun', payload: { level } })),
  ...Array.from({ length: 4 }, (_, hp) => ({ eventType: 'state_change', payload: `{"hp":${hp}}` })),
  { eventType: 'match_end', occurredAt: '22.11.2026 14:03' },
  ...Array.from({ length: 6 }, (_, n) => ({ eventType: 'player_action', userId: `player-${n}` })),
];

async function simulated(args: readonly string[]): Promise<void> {
  const env = { ...process.env, QUESTLOG_DATA_DIR: product.dataDir };
  const [code] = await once(spawn(process.execPath, [LAUNCHER, ...args], { env, stdio: 'inherit' }), 'exit');
  if (code !== 0) throw new Error(`questlog ${args.join(' ')} ended with ${code}`);
}

mkdirSync(FOLDER, { recursive: true });
const product = await startProduct();
const browser = await chromium.launch({ executablePath: findProgram('chromium') ?? 'chromium' });
try {
  await simulated(PAST);
  const live = simulated(NOW);
  const page = await browser.newPage({ viewport: { width: 1200, height: 720 } });
  const { adminUrl, adminToken } = product.credentials;
  await page.goto(`${adminUrl}/#token=${adminToken}`);
  const links = page.getByRole('navigation').getByRole('link');
  await links.first().waitFor();
  const paths = await links.evaluateAll((all) =>
    all.map((link) => String(link.getAttribute('href')).slice(2)),
  );
  const reports = await product.sql<{ id: string }>(
    "SELECT toString(id) AS id FROM reports WHERE title != '' ORDER BY notEmpty(attachments) DESC, received_at DESC LIMIT 1",
  );
  paths.push(...reports.map(({ id }) => `report/${id}`));
  for (const path of paths) {
    await page.goto(`${adminUrl}/#/${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await READY[path]?.(page);
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    await page.screenshot({ path: `${FOLDER}console-${path.split('/')[0]}.png` });
  }
  await live;
} finally {
  await browser.close();
  await product.stop();
  await removeDataDir(product);
}
