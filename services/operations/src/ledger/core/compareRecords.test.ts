import { expect, test } from 'vitest';
import { addRecords, compare, ZERO_AMOUNT } from './compareRecords.ts';

const AT = {
  tenantId: 'tenant',
  projectId: 'project',
  receivedAtMs: 0,
  appendId: 'append',
  firstId: 'first',
};

test('finds no difference if each record has its rows, and expects no rows for a record without events', () => {
  const at = { ...AT, hidden: 0 };
  const logged = [
    { ...at, partition: 3, offset: 7, events: 2 },
    { ...at, partition: 3, offset: 8, events: 0 },
  ];
  const stored = [{ offset: 7, tenantId: 'tenant', receivedAtMs: 0, rows: 2, events: 2 }];
  expect(compare(3, logged, stored)).toEqual({ projected: logged, absent: [], differences: [] });
});

test('accepts present and absent rows of erased events, and reports a missing row of another event', () => {
  const logged = [0, 1, 2, 3].map((offset) => ({ ...AT, partition: 3, offset, events: 3, hidden: 2 }));
  const all = { ...AT, partition: 3, offset: 4, events: 3, hidden: 3 };
  const row = { tenantId: 'tenant', receivedAtMs: 0 };
  const stored = [
    { ...row, offset: 0, rows: 1, events: 1 },
    { ...row, offset: 1, rows: 3, events: 3 },
    { ...row, offset: 2, rows: 4, events: 3 },
  ];
  const { projected, absent, differences } = compare(3, [...logged, all], stored);
  expect([projected, absent]).toEqual([[logged[0], logged[1], all], [logged[3]]]);
  expect(differences).toMatchObject([{ what: 'twice', offset: 2 }]);
});

test('reports missing rows, and rows without a record, with tenant, minute, position, and counts', () => {
  const logged = [{ ...AT, receivedAtMs: 119_999, partition: 3, offset: 7, events: 5, hidden: 1 }];
  const stored = [
    { offset: 7, tenantId: 'tenant', receivedAtMs: 119_999, rows: 4, events: 2 },
    { offset: 9, tenantId: 'other', receivedAtMs: 180_000, rows: 6, events: 3 },
  ];
  const expected = { kind: 'difference', partition: 3 };
  expect(compare(3, logged, stored)).toEqual({
    projected: [],
    absent: [],
    differences: [
      {
        ...{ ...expected, what: 'missing', tenantId: 'tenant', minute: '1970-01-01T00:01:00.000Z' },
        ...{ expected: 4, found: 2, offset: 7, appendId: 'append' },
      },
      {
        ...{ ...expected, what: 'unfounded', tenantId: 'other', minute: '1970-01-01T00:03:00.000Z' },
        ...{ expected: 0, found: 6, offset: 9, appendId: null },
      },
    ],
  });
});

test('adds amounts', () => {
  const two = addRecords(ZERO_AMOUNT, [{ events: 2 }, { events: 3 }]);
  expect(addRecords(two, [{ events: 4 }])).toEqual({ records: 3, events: 9 });
});
