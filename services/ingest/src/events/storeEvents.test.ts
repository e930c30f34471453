/** Tests that the quota counts the events that are in the log, and no events whose append failed. */
import { randomUUID } from 'node:crypto';
import type { NewRecord } from '@questlog/runtime/log/log';
import { partitionOf } from '@questlog/schemas/partition';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { APPEND_ID_HEADER } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { LOGGED, UNCERTAIN } from '../ledger/core/receivedCounts.ts';
import type { RequestOutcomes } from '../ledger/requestOutcomes.ts';
import { QuotaLedger } from './core/quotaLedger.ts';
import { OwnAppends } from './ownAppends.ts';
import {
  appendEvents,
  appendRecords,
  decideEvents,
  RandomPool,
  releaseEvents,
  type StoreEventsDeps,
} from './storeEvents.ts';

const NOW_MS = Date.UTC(2026, 10, 30, 23, 59);
const LOG = 'this-log';
const BASE_OFFSET = 7;

test('a failed append releases its quota, and the other appends are stored and counted', async () => {
  const { deps, principal, ledger, partitions, appended, counted, received } = aProcess({ quota: 100 });
  const [good, bad] = partitions;
  const decided = await decideEvents(deps, principal, aRequest([0, 0, 0, 1, 1]));
  expect(ledger.used()).toBe(5);
  const { promise, resolve } = Promise.withResolvers<void>();
  const reason = new Error('the broker is away');
  deps.log.append = async (topic, partition, records) => {
    if (partition === bad) throw reason;
    await promise;
    return append(topic, partition, records);
  };
  const append = aLogThatTakes(appended);
  const storing = appendEvents(deps, principal, decided);
  // The call does not return the first failure while other appends are running.
  await expect.poll(() => ledger.used()).toBe(3);
  resolve();
  await expect(storing).rejects.toBe(reason);
  expect(ledger.used()).toBe(3);
  expect(appended.map(({ partition }) => partition)).toEqual([good]);
  expect(counted).toEqual({ accepted: 0, overQuota: 0 });
  const note = (outcome: string, events: number) => {
    return { tenantId: principal.tenant.id, outcome, accepted: { receivedAtMs: NOW_MS, events } };
  };
  expect(received).toEqual([note(UNCERTAIN, 2), note(LOGGED, 3)]);
});

test('appends records with the tenant’s key, their append id, and the decided events', async () => {
  const { deps, principal, appended, counted } = aProcess({ quota: 100 });
  const decided = await decideEvents(deps, principal, aRequest([0, 1, 0]));
  await appendEvents(deps, principal, decided);
  const messages = decided.appends.flatMap((one) => one.messages);
  expect(appended.map(({ record }) => record)).toEqual(
    messages.map((message) => ({
      key: principal.tenant.id,
      value: encoded(message),
      headers: { [APPEND_ID_HEADER]: message.appendId },
    })),
  );
  expect(messages[0]).toMatchObject({ tenantId: principal.tenant.id, projectId: principal.project.id });
  expect(new Set(messages.map(({ appendId }) => appendId)).size).toBe(2);
  expect(new Set(decided.created.map(({ id }) => id)).size).toBe(3);
  expect(counted).toEqual({ accepted: 3, overQuota: 0 });
});

test.each([
  [0, 3, [false, false, false]],
  [2, 3, [false, true, true]],
  [3, 3, [true, true, true]],
  [9, 3, [true, true, true]],
  [9, null, [false, false, false]],
])('of 3 events after %i of a quota of %s the flags are %j', async (used, quota, flags) => {
  const { deps, principal, ledger, counted } = aProcess({ quota });
  ledger.reserve(used);
  const decided = await decideEvents(deps, principal, aRequest([0, 0, 0]));
  expect(decided.created.map(({ overQuota }) => overQuota)).toEqual(flags);
  await appendEvents(deps, principal, decided);
  expect(counted).toEqual({ accepted: 3, overQuota: flags.filter(Boolean).length });
});

test('an append at the offset of an earlier one shows what the log has lost', async () => {
  const { deps, principal, partitions, cuts } = aProcess({ quota: 100 });
  const decided = await decideEvents(deps, principal, aRequest([0, 0]));
  await appendEvents(deps, principal, decided);
  expect(cuts).toEqual([]);
  await appendEvents(deps, principal, await decideEvents(deps, principal, aRequest([0])));
  const appendId = decided.appends[0]?.messages[0]?.appendId;
  expect(cuts).toEqual([[partitions[0], BASE_OFFSET, [{ appendId, events: 2, receivedAt: NOW_MS }]]]);
});

test('frees the bytes of a large record after it is in the log', async () => {
  const { deps, principal } = aProcess({ quota: 100 });
  const value = Buffer.alloc(100_000);
  deps.codec.encode = () => value;
  const lengths: number[] = [];
  deps.log.append = async (_, __, records) => {
    lengths.push(...records.map((record) => record.value?.length ?? 0));
    return { baseOffset: BASE_OFFSET };
  };
  await appendEvents(deps, principal, await decideEvents(deps, principal, aRequest([0])));
  expect([lengths, value.length]).toEqual([[100_000], 0]);
});

test('counts each record of a batch until the rollup has its offset', async () => {
  const { deps, principal, ledger, partitions } = aProcess({ quota: 100 });
  const [partition = 0] = partitions;
  const records = ['a', 'b', 'c'].map((appendId) => ({ appendId, events: 1, receivedAt: NOW_MS }));
  ledger.reserve(3);
  const append = { partition, records, encode: () => records.map(({ appendId }) => Buffer.from(appendId)) };
  await appendRecords(deps, principal.tenant.id, [append], { ledger, overQuota: 0 });
  const left = [0, 1, 2].map((i) => {
    ledger.refresh([{ logId: LOG, partition, used: 0, lastOffset: BASE_OFFSET + i }], []);
    return ledger.used();
  });
  expect(left).toEqual([2, 1, 0]);
});

test('releases the quota of decided events that are not appended', async () => {
  const { deps, principal, ledger } = aProcess({ quota: 100 });
  releaseEvents(await decideEvents(deps, principal, aRequest([0, 0])));
  expect(ledger.used()).toBe(0);
});

test('stores and releases events of a tenant without a quota, and reports without events', async () => {
  const { deps, principal, asked } = aProcess({ quota: null });
  deps.quotas.ledger = async (_, month) => void asked.push(month);
  for (const lanes of [[0, 0], []]) {
    const decided = await decideEvents(deps, principal, aRequest(lanes));
    expect(decided.created.map(({ overQuota }) => overQuota)).toEqual(lanes.map(() => false));
    await appendEvents(deps, principal, decided);
    releaseEvents(decided);
  }
  deps.log.append = () => Promise.reject(new Error('the broker is away'));
  const failing = await decideEvents(deps, principal, aRequest([0]));
  await expect(appendEvents(deps, principal, failing)).rejects.toThrow('the broker is away');
  // A report without events uses no quota, and waits for no ledger.
  expect(asked).toEqual(['2026-11', '2026-11']);
});

test('returns random bytes once, from memory that no other buffer shares', () => {
  const pool = new RandomPool();
  // The sizes range from no bytes to more than one draw.
  const others = new Set<ArrayBufferLike>();
  const asked = [24, 0, 12_000, 24, 8_000, 40_000, 16, 1, 16_384];
  const taken = asked.flatMap((bytes) => {
    const two = [pool.take(bytes), pool.take(bytes)];
    others.add(Buffer.allocUnsafe(8).buffer);
    return two;
  });
  expect(taken.map(({ length }) => length)).toEqual(asked.flatMap((bytes) => [bytes, bytes]));
  const given = new Map<ArrayBufferLike, Uint8Array>();
  for (const { buffer, byteOffset, length } of taken) {
    const times = given.get(buffer) ?? new Uint8Array(buffer.byteLength);
    given.set(buffer, times);
    for (let i = byteOffset; i < byteOffset + length; i++) times[i] = (times[i] ?? 0) + 1;
  }
  for (const times of given.values()) expect(Math.max(...times)).toBeLessThan(2);
  expect(others.intersection(given)).toEqual(new Set());
  // All groups of 8 bytes differ, so no byte keeps the value that it had after the allocation.
  const all = Buffer.concat(taken).toString('hex').match(/.{16}/g) ?? [];
  expect(new Set(all).size).toBe(all.length);
  const other = new RandomPool().take(64);
  expect(taken.some((one) => one.includes(other.subarray(0, 16)))).toBe(false);
});

test('two requests at the same time share no id', async () => {
  const { deps, principal } = aProcess({ quota: null });
  const ids: string[] = [];
  // The requests take more than one draw of random bytes, and their sizes do not divide a draw evenly.
  for (let i = 0; i < 300; i++) {
    const { created, appends } = await decideEvents(
      deps,
      principal,
      aRequest(Array(1 + (i % 7)).fill(i % 2)),
    );
    ids.push(
      ...created.map(({ id }) => id),
      ...appends.flatMap(({ messages }) => messages).map((one) => one.appendId),
    );
  }
  expect(new Set(ids).size).toBe(ids.length);
});

interface Appended {
  readonly partition: number;
  readonly record: NewRecord;
}

/** Creates a process with a tenant whose two lanes are in two partitions. */
function aProcess({ quota }: { quota: number | null }) {
  const tenant = { id: randomUUID(), name: 'T', monthlySoftQuota: quota, spread: 2, createdAt: 1 };
  const principal = {
    tenant,
    project: { id: randomUUID(), tenantId: tenant.id, name: 'P', revision: null, createdAt: 1 },
    revision: 'A' as const,
    scopes: [],
    tokenId: null,
  };
  const ledger = new QuotaLedger(LOG);
  const [appended, asked]: [Appended[], string[]] = [[], []];
  const received: RequestOutcomes = [];
  const cuts: unknown[] = [];
  const counted = { accepted: 0, overQuota: 0 };
  const counter = (name: keyof typeof counted) => ({ inc: (by: number) => (counted[name] += by) });
  const deps = {
    log: { append: aLogThatTakes(appended) },
    codec: { encode: encoded },
    received,
    ownAppends: new OwnAppends((...cut) => void cuts.push(cut)),
    random: new RandomPool(),
    quotas: { ledger: async (): Promise<QuotaLedger | undefined> => ledger },
    metrics: { accepted: counter('accepted'), overQuota: counter('overQuota') },
    partitions: 4,
  } as unknown as StoreEventsDeps;
  const partitions = [0, 1].map((lane) => partitionOf(tenant.id, lane, deps.partitions));
  return { deps, principal, ledger, partitions, appended, asked, counted, received, cuts };
}

function aLogThatTakes(appended: Appended[]): StoreEventsDeps['log']['append'] {
  return async (_, partition, records) => {
    appended.push(...records.map((record) => ({ partition, record })));
    return { baseOffset: BASE_OFFSET };
  };
}

function encoded({ appendId, events }: EventsAccepted): Buffer {
  return Buffer.from(`${appendId} ${events.length}`);
}

function aRequest(lanes: readonly number[]): Parameters<typeof decideEvents>[2] {
  const drafts = lanes.map((lane, index) => ({
    index,
    lane,
    sessionId: null,
    buildId: null,
    eventType: 'a',
    occurredAt: null,
    payload: Buffer.from('{}'),
    sequence: null,
  }));
  return { receivedAt: NOW_MS, drafts, reportId: randomUUID() };
}
