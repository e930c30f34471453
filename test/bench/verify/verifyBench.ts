/**
 * `npm run bench:verify`: measures `questlog verify` for a million events, and the cost of the ledger. Uses the embedded log and
 * ClickHouse in this process, and takes less than a minute. Fails if the recount finds a difference.
 */
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { ReceivedCounts } from '@questlog/ingest/ledger/core/receivedCounts';
import { openStoredRows } from '@questlog/ingest/ledger/storedRows';
import { openVerifier, VERIFY_LIMITS } from '@questlog/ingest/ledger/verify';
import { systemClock } from '@questlog/runtime/process/clock';
import { createCodec } from '@questlog/runtime/registry/registry';
import { ErasedData } from '@questlog/schemas/erased';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import type { VerifyLine } from '@questlog/schemas/http/ledger';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { eventually } from '../../e2e/builders.ts';
import { page } from '../figuresPage.ts';
import { areConsumed, type LinksHouse, openLinksHouse, PARTITIONS } from '../links/linksHouse.ts';

const { values } = parseArgs({
  options: { events: { type: 'string', default: '500000' } },
});
const EVENTS = Number(values.events);
const EVENTS_A_RECORD = 20;
const TENANTS = Array.from({ length: 10 }, () => randomUUID());
const PROJECTED_WITHIN_MS = 300_000;
const MINUTE_MS = 60_000;
const MILLION = 1e6;
const MIB = 1024 * 1024;

interface Recounted {
  /** CPU of this process; ClickHouse runs in another process. */
  readonly cpuSeconds: number;
  readonly bytes: number;
}

const house = await openLinksHouse();
try {
  const receivedAt = Date.now() - 5 * MINUTE_MS;
  await fill(house, receivedAt);
  await house.startProjector();
  const projected = () => areConsumed(house.log, [[GROUPS.projectEvents, TOPICS.events]]);
  await eventually(projected, Boolean, PROJECTED_WITHIN_MS);
  const { cpuSeconds, bytes } = await recount(house, receivedAt);
  const aMillion = MILLION / EVENTS;
  const [mebibytes, pace] = [(bytes * aMillion) / MIB, VERIFY_LIMITS.bytesPerSecond / MIB];
  const report = page([
    '',
    '| The ledger | |',
    '| --- | --- |',
    `| a recount of a million events, ${mebibytes.toFixed(0)} MiB of the log | ${(cpuSeconds * aMillion).toFixed(1)} s of ingest's CPU, ${(mebibytes / pace).toFixed(0)} s at its pace |`,
    `| ingest's CPU for its ledger, requests of ${EVENTS_A_RECORD} events | ${noteMicros().toFixed(3)} µs an event |`,
    `| rows that an ingest leaves of a tenant that sends all day | ${await bytesADay(house)} |`,
  ]);
  process.stdout.write(`${report}\n`);
} finally {
  await house.close();
}

/** Writes records of several tenants to every partition. */
async function fill({ log, registry }: LinksHouse, receivedAt: number): Promise<void> {
  const codec = await createCodec(registry, eventsAccepted);
  const payload = Buffer.from('{"level":3,"hp":0.5,"weapon":"bow","position":[104.25,7.5,-33.125]}');
  const records = EVENTS / EVENTS_A_RECORD;
  let pending: Promise<unknown>[] = [];
  for (let n = 0; n < records; n++) {
    const events = Array.from({ length: EVENTS_A_RECORD }, () => ({ payload }));
    const tenantId = TENANTS[n % TENANTS.length] ?? '';
    const value = codec.encode(anEventsAccepted({ tenantId, projectId: tenantId, receivedAt, events }));
    pending.push(log.append(TOPICS.events, n % PARTITIONS, [{ key: tenantId, value }]));
    if (pending.length === 1000) {
      await Promise.all(pending);
      pending = [];
    }
  }
  await Promise.all(pending);
}

async function recount({ log, store, registry }: LinksHouse, receivedAt: number): Promise<Recounted> {
  const verifier = await openVerifier({
    ...{ log, registry, storedRows: openStoredRows(store), clock: systemClock, erased: new ErasedData() },
    codec: await createCodec(registry, eventsAccepted),
    projection: { caughtUp: async () => {}, projected: () => log.endOffsets(TOPICS.events) },
    limits: { ...VERIFY_LIMITS, bytesPerSecond: Number.POSITIVE_INFINITY },
  });
  const lines: VerifyLine[] = [];
  const times = { fromMs: receivedAt - MINUTE_MS, toMs: receivedAt + MINUTE_MS, tenantId: undefined };
  const cpu = process.cpuUsage();
  await verifier.start()(times, new AbortController().signal, (line) => lines.push(line));
  const { user, system } = process.cpuUsage(cpu);
  const summary = lines.findLast((line) => line.kind === 'summary');
  if (summary?.differences !== 0 || summary.projected.events !== EVENTS)
    throw new Error(`the recount is wrong: ${JSON.stringify(summary)}`);
  const bytes = lines.reduce(
    (most, line) => (line.kind === 'progress' ? Math.max(most, line.bytes) : most),
    0,
  );
  return { cpuSeconds: (user + system) / MILLION, bytes };
}

/** Measures two ledger entries per request, collected every two seconds, with 500 requests each. */
function noteMicros(): number {
  const counts = new ReceivedCounts();
  const rounds = 2_000;
  const cpu = process.cpuUsage();
  for (let round = 0; round < rounds; round++) {
    const nowMs = round * 2_000;
    const notes = Array.from({ length: 1_000 }, (_, n) => ({
      tenantId: TENANTS[n % TENANTS.length] ?? '',
      what: n % 2 === 0 ? 'accepted' : 'logged',
    }));
    for (const { tenantId, what } of notes) counts.add(nowMs, nowMs, tenantId, what, EVENTS_A_RECORD);
    counts.takeChanged(nowMs);
  }
  const { user, system } = process.cpuUsage(cpu);
  return (user + system) / (rounds * 500 * EVENTS_A_RECORD);
}

/** Measures the bytes per day with three outcomes a minute, after merges. */
async function bytesADay({ store }: LinksHouse): Promise<string> {
  const minute = `toStartOfDay(now()) - INTERVAL 1 DAY + INTERVAL number MINUTE`;
  await store.command(
    `INSERT INTO received_by_process
     SELECT tenant, ${minute}, what, toUUID('${randomUUID()}'), 300 + rand() % 100, 6000 + rand() % 999, number * 30
     FROM numbers(1440) ARRAY JOIN ['accepted', 'logged', 'replayed'] AS what
     CROSS JOIN (SELECT arrayJoin([${TENANTS.map((id) => `toUUID('${id}')`)}]) AS tenant) AS tenants`,
  );
  await store.command('OPTIMIZE TABLE received_by_process FINAL');
  const [row] = await store.query<{ bytes: string; rows: string }>(
    `SELECT sum(data_compressed_bytes) AS bytes, sum(rows) AS rows FROM system.parts
     WHERE active AND database = currentDatabase() AND table = 'received_by_process'`,
  );
  const [bytes, rows] = [Number(row?.bytes) / TENANTS.length, Number(row?.rows) / TENANTS.length];
  return `${rows.toLocaleString('en-US')}, ${(bytes / 1024).toFixed(0)} KiB`;
}
