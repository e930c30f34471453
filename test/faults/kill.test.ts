/** What was acknowledged outlives a `kill -9` at any instant, once, whole, and counted. */
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { aProject, eventually, type TestProject } from '../e2e/builders.ts';
import { type Product, removeDataDir, spawnProduct, startProduct } from '../e2e/product.ts';
import { bugsIn } from '../e2e/sharedProduct.ts';
import { auditCounts, auditEvents, auditOrder, auditSessions, type StoredRow, storedRows } from './audit.ts';
import { KillClient } from './killClient.ts';
import { SentLedger } from './ledger.ts';
import { type Random, seeded, seedOfRun } from './seeded.ts';

const KILLS = 20;
/** How long the product is under load before it is killed, at most. */
const MAX_LOAD_MS = 1_200;
/** A start takes about half a second on a quiet machine; these kills fall into it. */
const MAX_START_MS = 700;
const START_KILL_SHARE = 0.25;
const RUN_WITHIN_MS = 240_000;

const seed = seedOfRun();

describe(`after ${KILLS} kills under load (QUESTLOG_SEED=${seed})`, () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'questlog-kill-'));
  const ledger = new SentLedger();
  let product: Product;
  let projects: readonly TestProject[];
  let rows: readonly StoredRow[];

  beforeAll(async () => {
    console.info(`kill test: QUESTLOG_SEED=${seed}`);
    const random = seeded(seed);
    product = await startProduct({ dataDir });
    projects = await someProjects(product);
    const clients = someClients(projects, ledger, random);
    for (ledger.kills = 0; ledger.kills < KILLS; ledger.kills++) {
      if (random.chance(START_KILL_SHARE)) {
        await product.kill();
        await killWhileStarting(dataDir, random.between(0, MAX_START_MS));
        product = await startProduct({ dataDir });
      }
      const playing = clients.map((client) => client.play(product));
      // No condition to wait for: the instant is what the test varies.
      await delay(random.between(0, MAX_LOAD_MS));
      await product.kill();
      await Promise.all(playing);
      expect(bugsIn(product.stderr())).toEqual([]);
      product = await startProduct({ dataDir });
    }
    await Promise.all(clients.map((client) => client.finish(product)));
    // A quota is answered once the projection has passed what was in the log.
    for (const { token } of projects) await quotaOf(product, token);
    rows = await storedRows(product);
    console.info(
      `kill test: ${ledger.acknowledged} events acknowledged, ${rows.length} stored, ` +
        `${ledger.retries} retries after a crash, ${ledger.repeats} repeats`,
    );
  }, RUN_WITHIN_MS);

  afterAll(async () => {
    await product.stop();
    removeDataDir({ dataDir });
  });

  it('has answered no client with anything but success or "come again", and no retry with other ids', () => {
    expect(ledger.violations).toEqual([]);
    expect(ledger.retries).toBeGreaterThan(KILLS);
    expect(ledger.acknowledged).toBeGreaterThan(1_000);
  });

  it('has every acknowledged event in ClickHouse once, its payload to the byte, and no request in part', () => {
    expect(auditEvents(ledger, rows)).toEqual([]);
  });

  it('has the events of a session in the order in which they were sent', () => {
    expect(auditOrder(ledger, rows)).toEqual([]);
  });

  it('has every acknowledged session once', async () => {
    expect(await auditSessions(product, ledger)).toEqual([]);
  });

  it('counts what is stored: the quota, the minutes, the ledger of appends', async () => {
    expect(await auditCounts(product, rows)).toEqual([]);
  });

  it('answers GET /v1/quota with the number of stored events', async () => {
    for (const { token, tenantId } of projects) {
      const { month, used } = await quotaOf(product, token);
      const [row] = await product.sql<{ total: string }>(
        `SELECT toString(count()) AS total FROM events
         WHERE tenant_id = '${tenantId}' AND formatDateTime(received_at, '%Y-%m') = '${month}'`,
      );
      expect(used).toBe(Number(row?.total));
    }
  });

  it('flags exactly the events past the quota', async () => {
    const [quotaed] = projects;
    const rows = await product.sql<{ flagged: string; total: string }>(
      `SELECT toString(countIf(over_quota)) AS flagged, toString(count()) AS total FROM events
       WHERE tenant_id = '${quotaed?.tenantId}'`,
    );
    const total = Number(rows[0]?.total);
    expect(Number(rows[0]?.flagged)).toBe(Math.max(0, total - SOFT_QUOTA));
  });
});

/** Within reach of the load, so that the flags change in the middle of it. */
const SOFT_QUOTA = 5_000;

/** Two projects of one tenant, and one of a tenant whose sessions are spread over the partitions. */
async function someProjects(product: Product): Promise<TestProject[]> {
  const first = await aProject(product, { revision: 'A', monthlySoftQuota: SOFT_QUOTA });
  return [
    first,
    await aProject(product, { revision: 'B', tenantId: first.tenantId }),
    await aProject(product, { revision: 'B', spread: 4 }),
  ];
}

const CLIENTS_PER_PROJECT = 3;

function someClients(projects: readonly TestProject[], ledger: SentLedger, random: Random): KillClient[] {
  return projects.flatMap(({ tenantId, projectId, token }, project) =>
    Array.from({ length: CLIENTS_PER_PROJECT }, (_, number) => {
      const name = `${project}-${number}`;
      const own = seeded(random.between(0, 2 ** 31));
      return new KillClient({
        name,
        tenantId,
        projectId,
        token,
        mayOmitSession: project > 0,
        random: own,
        ledger,
      });
    }),
  );
}

async function killWhileStarting(dataDir: string, afterMs: number): Promise<void> {
  const child = spawnProduct({ dataDir });
  const exited = once(child, 'exit');
  await delay(afterMs);
  child.kill('SIGKILL');
  await exited;
}

async function quotaOf(product: Product, token: string): Promise<{ month: string; used: number }> {
  const headers = { Authorization: `Bearer ${token}` };
  const look = () => product.request('GET', '/v1/quota', { headers });
  return (await eventually(look, ({ status }) => status === 200, 60_000)).json();
}
