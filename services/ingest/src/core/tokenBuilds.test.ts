import { expect, test } from 'vitest';
import { buildProblems } from './tokenBuilds.ts';

const [OWN, OTHER] = ['b4d2e1c0-0000-4000-8000-000000000001', 'b4d2e1c0-0000-4000-8000-000000000002'];

test('rejects the first field that names a build the token may not write', () => {
  expect(buildProblems([OWN], { buildId: OWN, sessionId: OTHER, events: OTHER }, 3)).toEqual([
    {
      index: 3,
      pointer: '/sessionId',
      code: 'build_not_allowed',
      detail: `sessionId: the access token may not write for build ${OTHER}`,
    },
  ]);
  expect(buildProblems([], { buildId: OWN })).toMatchObject([{ index: 0, pointer: '/buildId' }]);
});

test('a token for all builds may write all, and every token may write without a build', () => {
  expect(buildProblems(undefined, { buildId: OTHER })).toEqual([]);
  expect(buildProblems([OWN], { buildId: null, sessionId: undefined })).toEqual([]);
  expect(buildProblems([OWN], { buildId: OWN })).toEqual([]);
});
