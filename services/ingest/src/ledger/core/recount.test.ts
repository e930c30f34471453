import { expect, test } from 'vitest';
import { compare } from './recount.ts';

const AT = {
  tenantId: 'tenant',
  projectId: 'project',
  receivedAtMs: 0,
  appendId: 'append',
  firstId: 'first',
};

test('where each record has its rows nothing differs, and one without events needs none', () => {
  const at = { ...AT, erased: 0 };
  const logged = [
    { ...at, partition: 3, offset: 7, events: 2 },
    { ...at, partition: 3, offset: 8, events: 0 },
  ];
  const held = [{ offset: 7, tenantId: 'tenant', receivedAtMs: 0, rows: 2, events: 2 }];
  expect(compare(3, logged, held)).toEqual({ projected: logged, absent: [], differences: [] });
});

test('erased events may be there or not, and none that was not erased may lack', () => {
  const logged = [0, 1, 2, 3].map((offset) => ({ ...AT, partition: 3, offset, events: 3, erased: 2 }));
  const all = { ...AT, partition: 3, offset: 4, events: 3, erased: 3 };
  const row = { tenantId: 'tenant', receivedAtMs: 0 };
  const held = [
    { ...row, offset: 0, rows: 1, events: 1 },
    { ...row, offset: 1, rows: 3, events: 3 },
    { ...row, offset: 2, rows: 4, events: 3 },
  ];
  const { projected, absent, differences } = compare(3, [...logged, all], held);
  expect([projected, absent]).toEqual([[logged[0], logged[1], all], [logged[3]]]);
  expect(differences).toMatchObject([{ what: 'twice', offset: 2 }]);
});
