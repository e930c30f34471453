/** Keyed requests while ClickHouse, which has the ledger of appends, is away. */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { type KeyedRequest, openReplays, type Replays, type StoredElement } from './replays.ts';

const STARTED_MS = Date.UTC(2026, 10, 21, 12);

test('a key that was made since ClickHouse last answered is stored, once', async () => {
  const { replays, outage, clock } = aProcess();
  outage.isOn = true;
  clock.nowMs = STARTED_MS + 1_000;
  const request = aRequest({ madeAtMs: STARTED_MS + 1 });
  const appended: StoredElement[] = [];
  const append = async (): Promise<StoredElement[]> => {
    appended.push(anEvent());
    return appended;
  };
  expect(await once(replays, request, append)).toEqual({ stored: appended, isReplay: false });
  expect(await once(replays, request, append)).toEqual({ stored: appended, isReplay: true });
  expect(appended).toHaveLength(1);
});

test('an older key may be in ClickHouse, and waits for it', async () => {
  const { replays, outage, clock } = aProcess();
  const never = (): Promise<never> => Promise.reject(new Error('it was appended'));
  outage.isOn = true;
  await expect(once(replays, aRequest({ madeAtMs: STARTED_MS }), never)).rejects.toThrow(Unavailable);

  // It answers again, which moves the line.
  outage.isOn = false;
  clock.nowMs = STARTED_MS + 60_000;
  await once(replays, aRequest({ madeAtMs: clock.nowMs }), async () => [anEvent()]);
  outage.isOn = true;
  const since = aRequest({ madeAtMs: STARTED_MS + 60_000 });
  await expect(once(replays, since, never)).rejects.toThrow(Unavailable);
});

test('a key of the future tells nothing about when it was made, and waits as well', async () => {
  const { replays, outage } = aProcess();
  outage.isOn = true;
  const never = (): Promise<never> => Promise.reject(new Error('it was appended'));
  await expect(once(replays, aRequest({ madeAtMs: STARTED_MS + 1 }), never)).rejects.toThrow(Unavailable);
});

test('other errors are not taken for an outage', async () => {
  const { replays, outage } = aProcess();
  const request = aRequest({ madeAtMs: STARTED_MS + 1 });
  outage.ledger = [{ digest: randomBytes(32).toString('hex') }];
  const never = (): Promise<never> => Promise.reject(new Error('it was appended'));
  await expect(once(replays, request, never)).rejects.toThrow('another body');
});

async function once(
  replays: Replays,
  request: KeyedRequest,
  append: () => Promise<readonly StoredElement[]>,
): Promise<{ stored: readonly StoredElement[]; isReplay: boolean }> {
  const claim = await replays.claim(request);
  if (claim.isReplay) return { stored: claim.before, isReplay: true };
  return { stored: claim.keep(await append()), isReplay: false };
}

function aProcess() {
  const outage = { isOn: false, ledger: [] as { digest: string }[] };
  const clock = { nowMs: STARTED_MS, now: () => clock.nowMs };
  const query = async (): Promise<never[]> => {
    if (outage.isOn) throw new Unavailable('an outage');
    return outage.ledger as never[];
  };
  const projection = { caughtUp: async () => {}, projected: async () => [] };
  return { replays: openReplays({ store: { query } as unknown as Store, clock, projection }), outage, clock };
}

function aRequest({ madeAtMs }: { madeAtMs: number }): KeyedRequest {
  return {
    tenantId: randomUUID(),
    projectId: randomUUID(),
    key: eventId(madeAtMs, 0, randomBytes(8)),
    digest: createHash('sha256').update('a body').digest(),
    indexes: [0],
  };
}

function anEvent(): StoredElement {
  return { index: 0, id: randomUUID(), occurredAt: 0n, overQuota: false };
}
