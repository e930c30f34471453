/** Tests `occurredAt`: accepted forms and responses. Times must be stored unchanged. */
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

/** Pairs of times. A client sends the first time of a pair, and Questlog returns the second. */
const forms: readonly (readonly [string, string])[] = [
  ['2026-11-21T18:30:00Z', '2026-11-21T18:30:00.000Z'],
  ['2026-11-21T18:30:00.5Z', '2026-11-21T18:30:00.500Z'],
  ['2026-11-21T18:30:00.123Z', '2026-11-21T18:30:00.123Z'],
  ['2026-11-21T18:30:00.123456Z', '2026-11-21T18:30:00.123456Z'],
  ['2026-11-21T18:30:00.000001Z', '2026-11-21T18:30:00.000001Z'],
  ['2026-11-21T18:30:00.1234569Z', '2026-11-21T18:30:00.123456Z'],
  ['2026-11-21T18:30:00.123456789123Z', '2026-11-21T18:30:00.123456Z'],
  ['2026-11-21T18:30:00,25Z', '2026-11-21T18:30:00.250Z'],
  ['2026-11-21t18:30:00z', '2026-11-21T18:30:00.000Z'],
  ['2026-11-21 18:30:00Z', '2026-11-21T18:30:00.000Z'],
  ['2026-11-21T18:30:00+02:00', '2026-11-21T16:30:00.000Z'],
  ['2026-11-21T18:30:00-0530', '2026-11-22T00:00:00.000Z'],
  ['2026-11-21T18:30:00+14', '2026-11-21T04:30:00.000Z'],
  ['2026-11-21T18:30:00-00:00', '2026-11-21T18:30:00.000Z'],
  ['2026-11-21T18:30:00', '2026-11-21T18:30:00.000Z'],
  ['2026-11-21T18:30', '2026-11-21T18:30:00.000Z'],
  ['2026-11-21T18:30+01:00', '2026-11-21T17:30:00.000Z'],
  ['2026-11-21', '2026-11-21T00:00:00.000Z'],
  ['2024-02-29', '2024-02-29T00:00:00.000Z'],
  ['2026-12-31T24:00:00Z', '2027-01-01T00:00:00.000Z'],
  ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
  ['1969-12-31T23:59:59.999999Z', '1969-12-31T23:59:59.999999Z'],
  ['1900-01-01T00:00:00Z', '1900-01-01T00:00:00.000Z'],
  ['1899-12-31T23:30:00-01:00', '1900-01-01T00:30:00.000Z'],
  ['2299-12-31T23:59:59.999999Z', '2299-12-31T23:59:59.999999Z'],
];

describe.concurrent('occurredAt', () => {
  test('is the same in the response, in GET, and in ClickHouse', async () => {
    const answer = await game.post(forms.map(([sent]) => anEvent({ occurredAt: sent })));
    const created: { id: string; occurredAt: string }[] = answer.json();
    expect(created.map(({ occurredAt }, i) => [forms[i]?.[0], occurredAt])).toEqual(forms);

    const reads = await Promise.all(created.map(({ id }) => game.get(`/v1/events/${id}`)));
    expect(reads.map((read) => read.json().occurredAt)).toEqual(created.map(({ occurredAt }) => occurredAt));
    const rows = await shared.product.sql<{ id: string; at: string }>(
      `SELECT id, formatDateTime(occurred_at, '%Y-%m-%dT%H:%i:%S.%f', 'UTC') AS at FROM events
       WHERE id IN (${created.map(({ id }) => `'${id}'`).join()})`,
    );
    const stored = new Map(rows.map(({ id, at }) => [id, at]));
    const toMicros = (text: string): string =>
      text.slice(0, -1).padEnd('2026-11-21T18:30:00.123456'.length, '0');
    expect(created.map(({ id }) => stored.get(id))).toEqual(
      created.map(({ occurredAt }) => toMicros(occurredAt)),
    );
  });
});

describe.concurrent('an omitted occurredAt', () => {
  test('uses the server’s time, which equals receivedAt, for all events of a batch', async () => {
    const before = Date.now();
    const answer = await game.post([
      anEvent(),
      anEvent({ occurredAt: null }),
      anEvent({ occurredAt: '2020-01-01' }),
    ]);
    const after = Date.now();

    const [first, second, third] = answer.json();
    expect(Date.parse(first.occurredAt)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(first.occurredAt)).toBeLessThanOrEqual(after);
    expect(second.occurredAt).toBe(first.occurredAt);
    expect(third.occurredAt).toBe('2020-01-01T00:00:00.000Z');
    await game.get(`/v1/events/${third.id}`);
    const rows = await shared.product.sql(
      `SELECT toUnixTimestamp64Milli(received_at) AS received FROM events
       WHERE id IN ('${first.id}', '${second.id}', '${third.id}')`,
    );
    const received = Date.parse(first.occurredAt);
    expect(rows).toEqual([{ received }, { received }, { received }]);
  });
});

describe.concurrent('a wrong clock', () => {
  test.each(['1970-01-01T00:00:00Z', '2199-01-01T00:00:00Z'])(
    'is stored unchanged: %s',
    async (occurredAt) => {
      const before = Date.now();
      const [created] = (await game.post(anEvent({ occurredAt }))).json();

      expect(Date.parse(created.occurredAt)).toBe(Date.parse(occurredAt));
      expect((await game.get(`/v1/events/${created.id}`)).json().occurredAt).toBe(created.occurredAt);
      const [row] = await shared.product.sql<{ received: number }>(
        `SELECT toUnixTimestamp64Milli(received_at) AS received FROM events WHERE id = '${created.id}'`,
      );
      expect(row?.received).toBeGreaterThanOrEqual(before);
    },
  );
});
