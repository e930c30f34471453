import { expect, test } from 'vitest';
import { compare } from './recount.ts';

test('where each record has its rows nothing differs, and one without events needs none', () => {
  const at = {
    tenantId: 'tenant',
    projectId: 'project',
    receivedAtMs: 0,
    appendId: 'append',
    firstId: 'first',
  };
  const logged = [
    { ...at, partition: 3, offset: 7, events: 2 },
    { ...at, partition: 3, offset: 8, events: 0 },
  ];
  const held = [{ offset: 7, tenantId: 'tenant', receivedAtMs: 0, rows: 2, events: 2 }];
  expect(compare(3, logged, held)).toEqual({ projected: logged, absent: [], differences: [] });
});
