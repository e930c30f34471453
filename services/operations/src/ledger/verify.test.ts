/** Tests the verification on the embedded log. Some records without rows are differences, and others are explained. */
import { randomUUID } from 'node:crypto';
import { aLog, ManualClock } from '@questlog/runtime/log/embedded/testing/testLog';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { ErasedData } from '@questlog/schemas/erased';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import type { VerifyLine } from '@questlog/schemas/http/ledger';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { DECISION_HEADER, GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import type { LoggedRecord, StoredOffset } from './core/compareRecords.ts';
import { offsetsBefore } from './readRange.ts';
import type { MinuteCount, StoredRows } from './storedRows.ts';
import { openVerifier, VERIFY_LIMITS } from './verify.ts';

const TENANT = randomUUID();
const MINUTE_MS = 60_000;

async function aQuestlog() {
  const clock = new ManualClock();
  const log = await aLog({ clock });
  await log.ensureTopics(topicDefinitions(2));
  const registry = await openLogRegistry(log);
  const codec = await createCodec(registry, eventsAccepted);
  const deadLetterCodec = await createCodec(registry, deadLetter);
  /** Rows by partition and offset. */
  const rows = new Map<string, StoredOffset>();
  const brought = new Set<string>();
  /** Ids of projects whose events have expired. */
  const expired = new Set<string>();
  const miscounts: MinuteCount[][] = [];
  const projected = { to: [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY] };
  const erased = new ErasedData();
  const storedRows: StoredRows = {
    rowsOf: async (_, { partition, start, end }) =>
      [...rows].flatMap(([key, row]) => {
        const isAsked = key.startsWith(`${partition}/`) && row.offset >= start && row.offset < end;
        return isAsked ? [row] : [];
      }),
    storedByOtherRecords: async (records) =>
      new Set(records.filter(({ firstId }: LoggedRecord) => brought.has(firstId))),
    expiredRecords: async (records) => new Set(records.filter(({ projectId }) => expired.has(projectId))),
    countWithoutRecords: async () => ({ expired: 7, cut: 0, ofOtherLogs: 0 }),
    miscountedMinutes: async () => miscounts.shift() ?? [],
    unbalancedMinutes: async () => [],
  };
  const append = async (value: Buffer, partition = 0): Promise<number> => {
    const { baseOffset } = await log.append(TOPICS.events, partition, [{ key: TENANT, value }]);
    return baseOffset;
  };
  const accepted = (of: Partial<EventsAccepted> = {}): EventsAccepted =>
    anEventsAccepted({ tenantId: TENANT, receivedAt: clock.nowMs, ...of, events: [{}, {}] });
  return {
    ...{ clock, log, rows, brought, expired, miscounts, projected, erased },
    accepted,
    raw: append,
    append: (message: EventsAccepted, partition = 0) => append(codec.encode(message), partition),
    store: (offset: number, of: Partial<StoredOffset> = {}, partition = 0) => {
      const row = { offset, tenantId: TENANT, receivedAtMs: clock.nowMs, rows: 2, events: 2 };
      rows.set(`${partition}/${offset}`, { ...row, ...of });
    },
    deadLetter: async (offset: number) => {
      const source = { logId: log.id, sourceTopic: TOPICS.events, sourcePartition: 0, sourceOffset: offset };
      const rest = { key: TENANT, value: null, headers: {}, deadAt: clock.nowMs };
      const value = deadLetterCodec.encode({
        ...source,
        ...rest,
        group: GROUPS.projectEvents,
        reason: 'a test',
      });
      // A decision is a record after its dead letter. The decision itself is not a dead letter.
      const decision = { key: null, value: null, headers: { [DECISION_HEADER]: 'discarded' } };
      await log.append(TOPICS.deadLetters, 0, [{ key: TENANT, value }, decision]);
    },
    verify: async (limits: Partial<typeof VERIFY_LIMITS> = {}) => {
      const projection = { caughtUp: async () => {}, projected: async () => projected.to };
      const verifier = await openVerifier(
        { log, registry, clock, visible: { cached: erased, latest: async () => erased } },
        storedRows,
        projection,
        { ...VERIFY_LIMITS, recheckAfterMs: 0, ...limits },
      );
      const lines: VerifyLine[] = [];
      const times = { fromMs: clock.nowMs - MINUTE_MS, toMs: clock.nowMs + MINUTE_MS, tenantId: undefined };
      const run = verifier.start();
      expect(() => verifier.start()).toThrow('already running');
      await run(times, new AbortController().signal, (line) => lines.push(line));
      verifier.start();
      return {
        differences: lines.flatMap((line) => (line.kind === 'difference' ? [line] : [])),
        summary: lines.at(-1),
      };
    },
  };
}

test('explains duplicate appends, dead letters, and unprojected records', async () => {
  const questlog = await aQuestlog();
  const { accepted, append, store, deadLetter, brought, expired, projected } = questlog;
  const first = accepted();
  store(await append(first));
  await append({ ...accepted(), appendId: first.appendId });
  const elsewhere = accepted();
  brought.add(elsewhere.events[0]?.id ?? '');
  await append(elsewhere);
  const old = accepted({ projectId: randomUUID() });
  expired.add(old.projectId);
  await append(old);
  await deadLetter(await append(accepted()));
  await deadLetter(await questlog.raw(Buffer.from('no record of ours')));
  store(await append(accepted(), 1), {}, 1);
  projected.to = [6, 1];
  await append(accepted());
  await questlog.raw(Buffer.from('not looked at yet'));

  expect(await questlog.verify()).toEqual({
    differences: [],
    summary: expect.objectContaining({
      logged: { records: 9, events: 14 },
      projected: { records: 2, events: 4 },
      repeated: { records: 2, events: 4 },
      dead: { records: 2, events: 2 },
      pastRetention: { records: 1, events: 2 },
      notYet: { records: 2, events: 2 },
      expired: 7,
      isWhole: true,
    }),
  });
});

test('reports missing, duplicate, unfounded, and unreadable records with their position', async () => {
  const questlog = await aQuestlog();
  const { accepted, append, store } = questlog;
  const lost = accepted();
  await append(lost);
  store(await append(accepted()), { rows: 1, events: 1 });
  store(await append(accepted()), { rows: 4 });
  await questlog.raw(Buffer.from('no record of ours'));
  store(await append(accepted({ receivedAt: questlog.clock.nowMs + 2 * MINUTE_MS })));

  const { differences, summary } = await questlog.verify();

  expect(differences.map(({ what, offset, expected, found }) => [what, offset, expected, found])).toEqual([
    ['missing', 1, 2, 1],
    ['twice', 2, 2, 4],
    ['unfounded', 4, 0, 2],
    ['unreadable', 3, 0, 0],
    ['missing', 0, 2, 0],
  ]);
  expect(differences[4]).toMatchObject({ partition: 0, tenantId: TENANT, appendId: lost.appendId });
  expect(summary).toMatchObject({ differences: 5 });
});

test('does not report a count that differs only while it is being written', async () => {
  const questlog = await aQuestlog();
  const miscount = {
    tenantId: TENANT,
    receivedAtMs: questlog.clock.nowMs - MINUTE_MS,
    expected: 5,
    found: 3,
  };
  const passing = (expected: number): MinuteCount => ({ ...miscount, expected });
  questlog.miscounts.push([miscount, passing(9)], [miscount, passing(11)]);

  const { differences } = await questlog.verify();

  const minute = new Date(miscount.receivedAtMs).toISOString();
  expect(differences).toMatchObject([{ what: 'miscounted', minute, expected: 5, found: 3, offset: null }]);
});

test('stops if almost all records differ, and says so', async () => {
  const questlog = await aQuestlog();
  for (let n = 0; n < 3; n++) await questlog.append(questlog.accepted());
  await questlog.append(questlog.accepted(), 1);

  const { summary } = await questlog.verify({ maxDifferences: 1 });

  expect(summary).toMatchObject({ isWhole: false });
});

test('finds the offset of a time in a long log by binary search', async () => {
  const { log, clock } = await aQuestlog();
  const beganMs = clock.nowMs;
  for (let minute = 0; minute < 6; minute++) {
    clock.nowMs = beganMs + minute * MINUTE_MS;
    const records = Array.from({ length: 10_000 }, () => ({ key: null, value: Buffer.from('x') }));
    await log.append(TOPICS.events, 1, records);
  }
  const bounds = {
    starts: await log.startOffsets(TOPICS.events),
    ends: await log.endOffsets(TOPICS.events),
  };
  const [empty, found = 0] = await offsetsBefore(log, TOPICS.events, bounds, beganMs + 4 * MINUTE_MS);

  expect(empty).toBe(0);
  expect(found).toBeLessThanOrEqual(40_000);
  expect(found).toBeGreaterThanOrEqual(30_000);
});
