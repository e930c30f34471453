/** Tests which values determine the ids of the events and records of a request with an idempotency key. */
import { expect, test } from 'vitest';
import { keyedAppendId, keyedTails, sha256 } from './keyedIds.ts';

const PROJECT = '7846b5f4-39dd-4381-b200-dbc9f59749ad';
const REQUEST = { key: '01a1fe02-7454-7000-a110-3027adf24232', digest: sha256('a body') };
const INDEXES = [0, 9, 10, 499];
const RECORDS = ['lane 0', 'lane 7', 'event 499', 'session none'];

/** Returns the ends of the event ids, and the append ids. */
function idsOf(projectId = PROJECT, request = REQUEST): string[] {
  const tails = keyedTails(projectId, request, INDEXES).toString('hex').match(/.{16}/g) ?? [];
  return [...tails, ...RECORDS.map((name) => keyedAppendId(projectId, request, name))];
}

test('the ids are the same in all versions, so that a retry at another version finds the stored events', () => {
  expect(idsOf()).toEqual([
    '5e79e18bf5b48898',
    '8197743af16a9e3c',
    'e95cf951e5c2a917',
    '2e70b59e7fa74dc0',
    '73aea1a1-abb4-831d-a854-c37084d84cac',
    'e66692c1-8ddd-82ae-a18c-5d5485b4ed22',
    'b45b0f65-5441-8065-aeeb-f377677ddc6e',
    '82ac245b-c0c1-8432-a277-83c5f7c1e52a',
  ]);
});

test.each([
  ['project', '7846b5f4-39dd-4381-b200-dbc9f59749ae', REQUEST],
  ['key', PROJECT, { ...REQUEST, key: '01a1fe02-7454-7000-a110-3027adf24233' }],
  ['body', PROJECT, { ...REQUEST, digest: sha256('another body') }],
])('each id depends on the %s', (_, projectId, request) => {
  const ids = [...idsOf(), ...idsOf(projectId, request)];
  expect(new Set(ids).size).toBe(2 * (INDEXES.length + RECORDS.length));
});
