/** Tests the sizes that are computed from the measured cost of an event. */
import { expect, test } from 'vitest';
import type { SizingResult } from './measureSizing.ts';
import { sizingReport } from './sizingPage.ts';

test('multiplies the cost of an event by the rate and keeps 40 % of each core free', () => {
  const report = sizingReport(RESULT);
  expect(report).toContain('| ingests (1 core each) | 2 | 2 | 20 |');
  expect(report).toContain('| projectors (1 core each) | 2 | 2 | 10 |');
  expect(report).toContain('| events per second | 10,000 | 100,000 | 1,000,000 (extrapolated) |');
  expect(report).toContain('| memory of all these processes | 2.0 GiB | 2.0 GiB | 14 GiB |');
  expect(report).toContain('| `QUESTLOG_PARTITIONS` | 12 | 12 | 24 |');
  expect(report).toContain('| all Kafka brokers | 1 core, 6.0 GiB | 1 core, 6.0 GiB | 5 cores, 6.0 GiB |');
  expect(report).toContain('| ClickHouse server | 1 core, 4.0 GiB | 2 cores, 4.0 GiB | 15 cores, 40 GiB |');
  expect(report).toContain('| disk of all Kafka brokers, 7 days | 1.8 TB | 18 TB | 181 TB |');
  expect(report).toContain('| disk of ClickHouse per month (30 days) | 5.2 TB | 52 TB | 518 TB |');
});

const GIB = 1024 ** 3;
const RESULT: SizingResult = {
  run: {
    at: '2026-01-01T00:00:00Z',
    machine: 'a machine',
    node: '24',
    loadBefore: 0,
    kafka: '4',
    seconds: 10,
    runs: 1,
  },
  shape: { events: 20, connections: 64, kind: 'client' },
  events: 1_000_000,
  eventsPerSecond: 100_000,
  cpuMicrosPerEvent: { ingest: 12, linker: 3, projector: 6, kafka: 1, clickhouse: 9 },
  peakBytes: { ingest: GIB / 2, linker: GIB / 4, projector: GIB / 4, kafka: 2 * GIB, clickhouse: 4 * GIB },
  logBytesPerEvent: 100,
  clickhouseBytesPerEvent: 200,
};
