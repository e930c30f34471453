/**
 * Tests the stream of linked events as a bug tracker reads it. The bug tracker uses HTTP with broken connections. The log is
 * embedded.
 */
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test, vi } from 'vitest';
import { appendLinks, aStreamBench, PARTITIONS } from './stream.testing.ts';
import { follow, until, untilHas } from './streamClient.testing.ts';

test('a tracker receives every stored and future link of its project once', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const kept = await appendLinks(bench, reader, 7);
  const stream = await follow(bench.baseUrl, reader);
  await untilHas(stream, 7);
  const later = await appendLinks(bench, reader, 5);
  await untilHas(stream, 12);

  expect(stream.status).toBe(200);
  expect(stream.headers.get('content-type')).toBe('text/event-stream');
  expect(stream.headers.get('cache-control')).toBe('no-store');
  expect(stream.headers.get('content-encoding')).toBeNull();
  expect(stream.linkIds().toSorted()).toEqual([...kept, ...later].toSorted());
});

test('a client that resumes at any message id misses no link and receives no link twice, over all partitions', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const linkIds = await appendLinks(bench, reader, 12);
  const whole = await follow(bench.baseUrl, reader, { from: 'start' });
  await untilHas(whole, linkIds.length);
  await appendLinks(bench, bench.reader(), 5);
  const last = (await bench.append(reader, 1)).linkId;
  await untilHas(whole, linkIds.length + 1);

  for (const [index, { id }] of whole.messages.entries()) {
    const seen = whole.linkIds().slice(0, index + 1);
    const missing = [...linkIds, last].filter((linkId) => !seen.includes(linkId));
    const resumed = await follow(bench.baseUrl, reader, { from: id });
    await untilHas(resumed, missing.length);
    expect(resumed.linkIds().toSorted()).toEqual(missing.toSorted());
    resumed.close();
  }
});

test('resumes a broken connection at Last-Event-ID, which overrides the from of the first request', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const first = await follow(bench.baseUrl, reader, { from: 'start' });
  const before = await appendLinks(bench, reader, 4);
  await untilHas(first, 4);
  bench.breakConnections();
  await until(() => expect(first.end()).toBe('broken'));
  const after = await appendLinks(bench, reader, 4);
  const second = await follow(bench.baseUrl, reader, { from: 'start', lastEventId: first.lastId() });
  await untilHas(second, 4);

  expect(first.linkIds().toSorted()).toEqual(before.toSorted());
  expect(second.linkIds().toSorted()).toEqual(after.toSorted());
});

test('never sends links of other projects, also of the same tenant', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const sibling = bench.reader({ tenantId: reader.tenantId });
  const stranger = bench.reader();
  const stream = await follow(bench.baseUrl, reader);
  await appendLinks(bench, sibling, 6);
  await appendLinks(bench, stranger, 6);
  const own = await appendLinks(bench, reader, PARTITIONS);
  await untilHas(stream, PARTITIONS);

  expect(stream.linkIds().toSorted()).toEqual(own.toSorted());
  expect((await follow(bench.baseUrl, sibling)).status).toBe(200);
});

test('from=end starts with the next link, also if the connection breaks before a link arrives', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  await appendLinks(bench, reader, 5);
  const stream = await follow(bench.baseUrl, reader, { from: 'end' });
  await until(() => expect(stream.lastId()).not.toBe(''));
  bench.breakConnections();
  const next = await appendLinks(bench, reader, 4);
  const resumed = await follow(bench.baseUrl, reader, { from: 'end', lastEventId: stream.lastId() });
  await untilHas(resumed, 4);

  expect(stream.messages).toEqual([]);
  expect(resumed.linkIds().toSorted()).toEqual(next.toSorted());
});

test('heartbeats advance the position over the links of other projects, so that these are not read again', async () => {
  const bench = await aStreamBench({ heartbeatMs: 20 });
  const reader = bench.reader();
  const stream = await follow(bench.baseUrl, reader);
  await appendLinks(bench, bench.reader(), 9);
  const ends = await bench.log.endOffsets(TOPICS.linkedEvents);

  await until(async () =>
    expect(await bench.positionOf(reader, stream.lastId())).toMatchObject({ nextOffsets: ends }),
  );
  expect(stream.messages).toEqual([]);
});

test('a position that was sent after a truncation skips no link that is appended after the truncation', async () => {
  const bench = await aStreamBench({ heartbeatMs: 20 });
  const reader = bench.reader();
  const stream = await follow(bench.baseUrl, reader);
  for (const _ of [1, 2, 3]) await bench.append(reader, 0);
  await untilHas(stream, 3);
  await bench.log.truncate(TOPICS.linkedEvents, 0, 1);
  await until(async () =>
    expect(await bench.positionOf(reader, stream.lastId())).toMatchObject({ nextOffsets: [1, 0, 0] }),
  );
  bench.breakConnections();
  const since = [await bench.append(reader, 0), await bench.append(reader, 0)].map(({ linkId }) => linkId);
  const resumed = await follow(bench.baseUrl, reader, { lastEventId: stream.lastId() });
  await untilHas(resumed, 2);

  expect(resumed.linkIds()).toEqual(since);
});

test('ids reveal nothing about other projects: all ids have one length, differ, and are valid only in their project', async () => {
  const bench = await aStreamBench({ heartbeatMs: 20 });
  const [reader, stranger] = [bench.reader(), bench.reader()];
  const stream = await follow(bench.baseUrl, reader);
  await until(() => expect(stream.lastId()).not.toBe(''));
  const opening = stream.lastId();
  await until(() => expect(stream.lastId()).not.toBe(opening));
  const quiet = stream.lastId();
  for (let i = 0; i < 300; i++) await bench.append(stranger, 0);
  const { linkId } = await bench.append(reader, 0);
  await untilHas(stream, 1);
  const ids = [opening, quiet, stream.messages[0]?.id ?? ''];

  expect(new Set(ids.map((id) => id.length)).size).toBe(1);
  // Ignores the first byte, which is the version. In the other bytes, two encrypted ids are equal only by chance.
  const [a, b] = [opening, quiet].map((id) => Buffer.from(id, 'base64url').subarray(1));
  expect(a?.filter((byte, i) => byte === b?.[i]).length).toBeLessThan(12);
  for (const id of ids) expect(await bench.positionOf(stranger, id)).toBe('start');
  const resumed = await follow(bench.baseUrl, reader, { lastEventId: quiet });
  await untilHas(resumed, 1);
  expect(resumed.linkIds()).toEqual([linkId]);
});

test('an unencrypted id of an earlier version starts at the oldest stored link', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const linkIds = await appendLinks(bench, reader, 6);
  const logId = Buffer.from(bench.log.id.replaceAll('-', ''), 'hex');
  for (const offset of [0, 2, 100]) {
    const old = Buffer.concat([Buffer.of(1), logId, Buffer.of(offset, offset, offset)]).toString('base64url');
    const stream = await follow(bench.baseUrl, reader, { lastEventId: old });
    await untilHas(stream, 6);
    expect(stream.linkIds().toSorted()).toEqual(linkIds.toSorted());
  }
});

test('a payload arrives as the game sent it, except that CR between tokens becomes LF', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const stream = await follow(bench.baseUrl, reader);
  const payload = '{\n\n "big":18446744073709551615,\r\n"z":-0,"a":1,\r"a":1e400, "é":"\\r\\n\u2028"\n}';
  await bench.append(reader, 0, { event: { payload: Buffer.from(payload) } });
  await untilHas(stream, 1);

  expect(stream.messages[0]?.data).toContain(
    `"payload":${payload.replace(/\r\n?/g, '\n')},"overQuota":false}}`,
  );
});

test('skips a record that does not decode, and sends the links after it', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  await bench.log.append(TOPICS.linkedEvents, 0, [{ key: reader.tenantId, value: Buffer.from('not Avro') }]);
  const { linkId } = await bench.append(reader, 0);
  const stream = await follow(bench.baseUrl, reader);
  await untilHas(stream, 1);

  expect(stream.linkIds()).toEqual([linkId]);
});

const WEEK_MS = 7 * 24 * 3_600_000;

test('reports the gap once, with its time range, before the kept links if the next links of a client have expired', async () => {
  const lastMs = Date.now() - 5_000;
  const queries: Record<string, unknown>[] = [];
  const store = {
    query: async (_: string, parameters: Record<string, unknown>) => {
      queries.push(parameters);
      return [{ links: '1', lastMs: String(lastMs) }] as never;
    },
  };
  const bench = await aStreamBench({}, store);
  const reader = bench.reader();
  await bench.append(reader, 0);
  const first = await follow(bench.baseUrl, reader);
  await untilHas(first, 1);
  first.close();
  await appendLinks(bench, reader, 6);
  await bench.expire(WEEK_MS + 1);
  const keptFrom = Date.now() + WEEK_MS;
  const kept = await appendLinks(bench, reader, 6);

  const stream = await follow(bench.baseUrl, reader, { lastEventId: first.lastId() });
  await untilHas(stream, 7);
  const [gap, ...links] = stream.messages;
  expect(gap?.event).toBe('gap');
  const { from, to } = JSON.parse(gap?.data ?? '');
  expect(from).toBe(`${new Date(lastMs).toISOString().slice(0, -1)}Z`);
  expect(Date.parse(to)).toBeGreaterThanOrEqual(keptFrom);
  expect(Date.parse(to)).toBeLessThanOrEqual(Date.now() + WEEK_MS + 1);
  expect(links.map(({ data }) => JSON.parse(data).linkId).toSorted()).toEqual(kept.toSorted());
  expect(queries).toMatchObject([{ projectId: reader.projectId, nextOffsets: [1, 0, 0] }]);

  const again = await follow(bench.baseUrl, reader, { lastEventId: gap?.id ?? '' });
  await untilHas(again, 6);
  expect(again.messages.map(({ event }) => event)).not.toContain('gap');
});

test('reports a gap also if no link is kept, if the id cannot be read, and if ClickHouse does not answer', async () => {
  const store = {
    query: async () => {
      throw new Error('away');
    },
  };
  const bench = await aStreamBench({}, store);
  const [reader, stranger] = [bench.reader(), bench.reader()];
  const first = await follow(bench.baseUrl, reader);
  await until(() => expect(first.lastId()).not.toBe(''));
  first.close();
  await appendLinks(bench, reader, 3);
  await bench.expire(WEEK_MS + 1);
  for (const client of [reader, stranger]) {
    const begun = Date.now() + WEEK_MS;
    const stream = await follow(bench.baseUrl, client, { lastEventId: first.lastId() });
    await untilHas(stream, 1);
    const { from, to } = JSON.parse(stream.messages[0]?.data ?? '');
    expect([stream.messages[0]?.event, from]).toEqual(['gap', null]);
    expect(Date.parse(to)).toBeGreaterThanOrEqual(begun);
  }
});

test('reports no gap to a client that has missed nothing or that starts with the oldest kept link', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  await appendLinks(bench, reader, 3);
  const first = await follow(bench.baseUrl, reader);
  await untilHas(first, 3);
  first.close();
  await bench.expire(WEEK_MS + 1);
  const next = await appendLinks(bench, reader, 3);
  for (const at of [{ lastEventId: first.lastId() }, { from: 'start' }, {}]) {
    const stream = await follow(bench.baseUrl, reader, at);
    await untilHas(stream, 3);
    expect(stream.linkIds().toSorted()).toEqual(next.toSorted());
  }
});

test('reports records that expire while a stream runs as a gap', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const { tail } = bench.log;
  const spied = vi.spyOn(bench.log, 'tail').mockImplementation((options) =>
    tail.call(bench.log, {
      ...options,
      onBatch: (batch) =>
        options.onBatch(batch.records[0]?.offset === 1 ? { ...batch, isAfterExpired: true } : batch),
    }),
  );
  const stream = await follow(bench.baseUrl, reader);
  await bench.append(reader, 0);
  await untilHas(stream, 1);
  const last = await bench.append(reader, 0);
  await untilHas(stream, 3);
  expect(stream.messages.map(({ event }) => event)).toEqual(['linked', 'gap', 'linked']);
  const { from, to } = JSON.parse(stream.messages[1]?.data ?? '');
  expect(Date.parse(from)).toBeLessThanOrEqual(Date.parse(to));
  spied.mockRestore();
  const resumed = await follow(bench.baseUrl, reader, { lastEventId: stream.messages[1]?.id ?? '' });
  await untilHas(resumed, 1);
  expect(resumed.linkIds()).toEqual([last.linkId]);
});
