/** Data with the longest values that the API accepts, for tests of the console's layout. */
import type { Page } from 'playwright-core';
import { anEvent, anUnknownId, aProject, eventually, type TestProject } from '../e2e/builders.ts';
import type { Reached } from '../e2e/product.ts';

/** Text without a place for a line break. */
export const LONG_TYPE = 'checkpoint_reached_'.repeat(16).slice(0, 300);
const LONG_TEXT = 'it_fell_through_the_floor_of_the_arena_'.repeat(6).slice(0, 200);
const QUOTA = 12_345_678;
/** More than one page of the list. */
const REPORTS = 52;

export interface LongValues {
  readonly game: TestProject;
  /** A project without reports, of a tenant without a quota. */
  readonly other: TestProject;
  readonly eventId: string;
  readonly reportId: string;
}

/** Fills a new product; resolves when every value is in ClickHouse. */
export async function fillWithLongValues(product: Reached): Promise<LongValues> {
  const game = await aProject(product, { name: LONG_TEXT, monthlySoftQuota: QUOTA });
  const other = await aProject(product, { name: 'Fox Run' });
  await Promise.all([game, other].map((one) => countMillions(product, one.tenantId)));
  await product.admin('PUT', `/admin/projects/${game.projectId}/switches`, [
    { eventType: 'spam', buildId: anUnknownId(), action: 'reject', reason: LONG_TEXT },
    { eventType: LONG_TYPE.replace('check', 'other'), action: 'sample', sampleRate: 0.05, reason: 'floods' },
  ]);
  const build = { version: '1.4.2-'.padEnd(255, 'nightly'), platform: 'Web' };
  const sessionId = await game.session({ build, player: { externalId: LONG_TEXT } });
  const played = [LONG_TYPE, 'jump', 'wall', 'stuck'].map((eventType, n) =>
    anEvent({ sessionId, eventType, sequence: n + (n > 2 ? 2 : 1), payload: { n, said: LONG_TEXT } }),
  );
  const [event] = (await game.post(played)).json();
  const reports = Array.from({ length: REPORTS }, (_, n) => ({
    title: n === 0 ? LONG_TEXT : `Player stuck in the wall, ${n}`,
    description: n === 0 ? LONG_TEXT : '',
    severity: 'critical',
    fingerprint: n % 2 === 0 ? LONG_TEXT : `stuck ${n}`,
  }));
  const filed = await Promise.all(
    reports.map((report, n) =>
      game.report({ sessionId, report, ...(n === 0 && { context: { LONG_TEXT } }) }),
    ),
  );
  await game.post([
    { evenType: 'jump' },
    { [`${LONG_TEXT.slice(0, 100)}`]: 1 },
    { eventType: 'jump', payload: LONG_TEXT },
  ]);
  await game.post(anEvent({ sessionId, eventType: LONG_TYPE, [LONG_TEXT]: LONG_TEXT }));
  await game.post(anEvent({ sessionId, eventType: LONG_TYPE, occurredAt: '2062-01-01T00:00:00Z' }));
  await other.post({ evenType: 'jump' });
  const [{ id: reportId = '' } = {}] = filed.map((answer) => answer.json());
  await eventually(
    () =>
      product.sql<{ n: string }>(
        'SELECT toString((SELECT count() FROM reports) + (SELECT uniqExact(kind) FROM rejects)) AS n',
      ),
    ([row]) => Number(row?.n) === REPORTS + 3,
  );
  return { game, other, eventId: String(event.id), reportId };
}

/** Inserts counts that games would need hours to reach. */
async function countMillions({ credentials }: Reached, tenantId: string): Promise<void> {
  const { url, database, username, password } = credentials.clickhouse;
  const headers = {
    'X-ClickHouse-User': username,
    'X-ClickHouse-Key': password,
    'X-ClickHouse-Database': database,
  };
  const log = anUnknownId();
  for (const query of [
    `INSERT INTO quota_usage_by_partition (tenant_id, month, log_id, log_partition, used, last_offset) VALUES ('${tenantId}', toStartOfMonth(now('UTC')), '${log}', 0, 13456789, 1)`,
    `INSERT INTO event_counts_by_partition (tenant_id, project_id, minute, event_type, log_id, log_partition, count, last_offset) SELECT '${tenantId}', '${anUnknownId()}', toStartOfDay(now('UTC')) - toIntervalDay(number),
       'jump', '${log}', 0, 1000000 + number * 110000, 1 FROM numbers(20)`,
  ]) {
    const answer = await fetch(url, { method: 'POST', headers, body: query });
    if (!answer.ok) throw new Error(`${query}: ${await answer.text()}`);
  }
}

/** Fakes the answers of `GET /admin/dead-letters`, because only a broken record causes a dead letter. */
export async function withDeadLetters(page: Page): Promise<void> {
  const letter = (n: number) => ({
    ...{
      id: anUnknownId(),
      state: 'open',
      deadAt: new Date(Date.now() - n * 3_600_000).toISOString(),
      decidedAt: null,
    },
    ...{
      group: 'questlog-project-events',
      topic: 'questlog.events.v1',
      partition: 3,
      offset: 9_007_199_254_740_991,
    },
    ...{ key: anUnknownId(), reason: n === 0 ? `field ${LONG_TYPE} is no string` : 'no such schema' },
  });
  const json = { deadLetters: [0, 1, 2].map(letter), next: null, open: 1_234_567 };
  await page.route('**/admin/dead-letters?*', (route) => route.fulfill({ json }));
}
