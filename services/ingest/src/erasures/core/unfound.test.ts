import { expect, test } from 'vitest';
import { unfoundOf } from './unfound.ts';

const OF = { tenantId: 't', projectId: null, player: { externalId: 'p', deviceId: null } };

test('names each project of the erasure in which sessions go first, and no other', () => {
  const all = [project('a'), project('b', 't', 90), project('c'), project('d', 'another')];
  expect(namedBy(OF, all)).toEqual(['a', 'c']);
  expect(namedBy({ ...OF, projectId: 'c' }, all)).toEqual(['c']);
  expect(namedBy({ ...OF, projectId: 'd' }, all)).toEqual([]);
});

test('says nothing where nothing outlives sessions, and of an erasure of no player', () => {
  expect(unfoundOf(OF, mapOf([project('b', 't', 90)]))).toBeNull();
  expect(unfoundOf({ ...OF, player: null }, mapOf([project('a')]))).toBeNull();
});

test('of many projects as much is said as a receipt holds', () => {
  const many = Array.from({ length: 100 }, (_, i) => project(`p${i}`));
  expect(unfoundOf(OF, mapOf(many))).toHaveLength(2_000);
});

function namedBy(of: { projectId?: string | null }, all: ReturnType<typeof project>[]): string[] {
  const said = unfoundOf({ ...OF, ...of }, mapOf(all))?.split('; ') ?? [];
  return said.map(
    (sentence) => /^project (\w+) may have more of the player: sessions/.exec(sentence)?.[1] ?? sentence,
  );
}

function project(id: string, tenantId = 't', sessions = 30) {
  return { id, tenantId, retentionDays: { events: 90, sessions, reports: 90, links: 90, uploads: 90 } };
}

function mapOf(all: ReturnType<typeof project>[]) {
  return new Map(all.map((one) => [one.id, one]));
}
