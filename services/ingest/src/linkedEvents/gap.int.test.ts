/** Tests the time range of a gap on the real engine. */
import { randomUUID } from 'node:crypto';
import { sharedStore } from '@questlog/runtime/clickhouse/chdb/testing/storedReports';
import { expect, test } from 'vitest';
import { aStreamBench } from './stream.testing.ts';
import { follow, until, untilHas } from './streamClient.testing.ts';

const shared = sharedStore();
const WEEK_MS = 7 * 24 * 3_600_000;

test('a gap begins with the last link of the project before the position of the client, over all partitions', async () => {
  const bench = await aStreamBench({}, { query: (...asked) => shared.store.query(...asked) });
  const [reader, other] = [bench.reader(), bench.reader()];
  const links = [
    { of: reader, partition: 0, offset: 0, state: 'linked', second: 10 },
    { of: reader, partition: 2, offset: 0, state: 'retracted', second: 20 },
    { of: reader, partition: 1, offset: 0, state: 'pending', second: 30 },
    { of: reader, partition: 1, offset: 1, state: 'linked', second: 40 },
    { of: other, partition: 0, offset: 0, state: 'linked', second: 50 },
  ];
  for (const { of, partition, offset, state, second } of links) {
    await shared.store.command(
      `INSERT INTO report_link_versions (tenant_id, project_id, report_id, event_id, state, version, changed_at, log_id, log_partition, log_offset)
       VALUES ('${of.tenantId}', '${of.projectId}', '${randomUUID()}', '${randomUUID()}', '${state}', 2,
         '2026-11-20 12:00:${second}.125', '${bench.log.id}', ${partition}, ${offset})`,
    );
  }
  for (const partition of [0, 1, 2]) await bench.append(reader, partition);
  const first = await follow(bench.baseUrl, reader);
  await untilHas(first, 3);
  first.close();
  for (const partition of [0, 1, 2]) await bench.append(reader, partition);
  await bench.expire(WEEK_MS + 1);
  await bench.append(reader, 1);

  const stream = await follow(bench.baseUrl, reader, { lastEventId: first.lastId() });
  await until(() => expect(stream.messages.map(({ event }) => event)).toEqual(['gap', 'linked']));
  expect(JSON.parse(stream.messages[0]?.data ?? '')).toMatchObject({ from: '2026-11-20T12:00:20.125Z' });
});
