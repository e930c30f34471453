/** Tests that the parts of an erasure are shown as one erasure. */
import { randomUUID } from 'node:crypto';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import { expect, test } from 'vitest';
import { countOf, mergeParts, splitIntoParts } from './parts.ts';

test('each id is in one part, and every part except the last is full', () => {
  const ids = (projectId: string, count: number) => ({
    projectId,
    ids: Array.from({ length: count }, () => randomUUID()),
  });
  const all = [ids('a', 5), ids('b', 1), ids('c', 6)];
  const parts = splitIntoParts(all, 4);
  expect(parts.map(countOf)).toEqual([4, 4, 4]);
  const byProject = Map.groupBy(parts.flat(), ({ projectId }) => projectId);
  expect(
    [...byProject].map(([projectId, of]) => ({ projectId, ids: of.flatMap((some) => some.ids) })),
  ).toEqual(all);
  expect(splitIntoParts([], 4)).toEqual([]);
});

test('an erasure has the state of its slowest part, and the sum of the counts of its parts', () => {
  const first = anErasure({ state: 'done', hiddenAt: 1, goneAt: 5 });
  const found = { ...first.found, events: 3 };
  const part = anErasure({ partOf: first.id, state: 'running', problem: 'it waits', hiddenAt: 2, found });
  expect(mergeParts(part, [{ ...first, found }])).toMatchObject({
    ...{ id: first.id, state: 'running', problem: 'it waits', hiddenAt: 2, goneAt: null },
    found: { events: 6 },
  });
  expect(mergeParts(first, [part])).toMatchObject({ state: 'running', goneAt: null });
  const ended = mergeParts(first, [{ ...part, state: 'done', problem: null, goneAt: 4 }]);
  expect(ended).toMatchObject({ state: 'done', problem: null, hiddenAt: 2, goneAt: 5 });
  expect(mergeParts({ ...first, state: 'failed' }, [part]).state).toBe('failed');
  expect(mergeParts({ ...first, state: 'queued' }, [{ ...part, state: 'queued' }]).state).toBe('queued');
});

test('the files of an export are compared when they are compared for every part of the erasure', () => {
  const exportId = randomUUID();
  const compared = (comparedAt: number, planId: string) => [
    { exportId, comparedAt, rewritten: 1, planId, names: [planId] },
  ];
  const first = anErasure({ hiddenAt: 5, exports: compared(6, 'late') });
  const part = anErasure({ partOf: first.id, hiddenAt: 1, exports: compared(2, 'early') });
  expect(mergeParts(first, [part])).toMatchObject({
    hiddenAt: 5,
    exports: [{ exportId, comparedAt: 6, planId: 'late', rewritten: 2, names: ['early', 'late'] }],
  });
});

test('an erasure without its last part has failed, because its own sessions were never written', () => {
  const requestId = { partOf: randomUUID(), problem: 'it waits', hiddenAt: 1, goneAt: 2 };
  const parts = (['done', 'running'] as const).map((state) => anErasure({ ...requestId, state }));
  for (const [first, ...others] of [parts, parts.slice(0, 1)])
    expect(mergeParts(first ?? anErasure(), others)).toMatchObject({
      ...{
        id: requestId.partOf,
        state: 'failed',
        problem: expect.stringMatching(/^it waits; .*request the erasure again$/),
      },
      ...{ hiddenAt: null, goneAt: null },
    });
});
