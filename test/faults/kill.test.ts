/** Tests that acknowledged events survive a `kill -9` at any instant: once, complete, in order, and counted. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { auditCounts, auditEvents, auditOrder, auditSessions, type StoredRow, storedRows } from './audit.ts';
import { Campaign, quotaOf, SOFT_QUOTA } from './killCampaign.ts';
import { seedOfRun } from './seeded.ts';

const KILLS = 8;
const RUN_WITHIN_MS = 240_000;
/** Minimum acknowledged events, because fewer prove nothing. */
const MIN_ACKNOWLEDGED = 1_000;

const seed = seedOfRun();

describe(`after ${KILLS} kills under load (QUESTLOG_SEED=${seed})`, () => {
  const campaign = new Campaign(seed);
  const { ledger } = campaign;
  let rows: readonly StoredRow[];

  beforeAll(async () => {
    console.info(`kill test: QUESTLOG_SEED=${seed}`);
    await campaign.run(KILLS);
    rows = await storedRows(campaign.product);
    const { acknowledged, retries, repeats } = ledger;
    console.info(`kill test: ${JSON.stringify({ acknowledged, stored: rows.length, retries, repeats })}`);
  }, RUN_WITHIN_MS);

  afterAll(() => campaign.end());

  it('answered only success or 503, and every retry with the same ids', () => {
    expect(ledger.violations).toEqual([]);
    expect(ledger.retries).toBeGreaterThan(KILLS);
    expect(ledger.acknowledged).toBeGreaterThan(MIN_ACKNOWLEDGED);
  });

  it('has every acknowledged event once with its payload bytes, and no incomplete request', () => {
    expect(auditEvents(ledger, rows)).toEqual([]);
  });

  it('has the events of a session in the order in which they were sent', () => {
    expect(auditOrder(ledger, rows)).toEqual([]);
  });

  it('has every acknowledged session once', async () => {
    expect(await auditSessions(campaign.product, ledger)).toEqual([]);
  });

  it('counts the stored events in the quota, the minutes, and the ledger of appends', async () => {
    expect(await auditCounts(campaign.product, rows)).toEqual([]);
  });

  it('answers GET /v1/quota with the number of stored events', async () => {
    const { product, projects } = campaign;
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
    const [quotaed] = campaign.projects;
    const [row] = await campaign.product.sql<{ flagged: string; total: string }>(
      `SELECT toString(countIf(over_quota)) AS flagged, toString(count()) AS total FROM events
       WHERE tenant_id = '${quotaed?.tenantId}'`,
    );
    expect(Number(row?.flagged)).toBe(Math.max(0, Number(row?.total) - SOFT_QUOTA));
  });
});
