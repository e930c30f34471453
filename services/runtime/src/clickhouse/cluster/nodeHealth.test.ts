/** Tests the warning about the nodes of a cluster. */
import { expect, test } from 'vitest';
import { Unavailable } from '../../process/errors.ts';
import type { NodeStore, Store } from '../store.ts';
import { nodeProblems } from './nodeHealth.ts';

/**
 * @param state lag in seconds, numbers of read-only tables and of all tables, and difference of the clock. Undefined if the node
 * does not answer.
 */
function aNode(
  name: string,
  shard: string,
  state: readonly [lag: number, readOnly: number, tables?: number, clockDifferenceMs?: number] | undefined,
) {
  const query = async () => {
    if (state === undefined) throw new Unavailable('connection refused');
    const [lag, readOnly, tables = 5, clockDifferenceMs = 0] = state;
    return [
      {
        ...{ lagSeconds: String(lag), readOnlyTables: String(readOnly), tables: String(tables) },
        clockMs: String(Date.now() + clockDifferenceMs),
      },
    ];
  };
  return {
    name,
    url: name,
    shard,
    replica: name,
    quorum: 2,
    store: { query } as unknown as Store,
  } satisfies NodeStore;
}

test('names a shard whose quorum is lowered', async () => {
  const replicas = ['a', 'b'].map((name) => ({ ...aNode(name, '1', [0, 0]), isQuorumLowered: true }));
  expect(await nodeProblems([...replicas, aNode('c', '2', [0, 0])])).toBe(
    'one replica of shard 1 is enough to store an event, because the quorum of the shard is lowered; restore the quorum with questlog clickhouse quorum',
  );
});

test('names a lost shard, silent nodes, read-only nodes, wrong clocks, and nodes that lack tables or rows', async () => {
  expect(
    await nodeProblems([aNode('a', '1', [9, 0, 5, 1_900]), aNode('b', '2', [0, 0, 5, -1_900])]),
  ).toBeUndefined();
  expect(
    await nodeProblems([
      aNode('a', '1', [35, 0]),
      aNode('b', '1', [0, 3]),
      aNode('c', '2', undefined),
      aNode('d', '2', undefined),
      { name: 'e', url: 'e', shard: undefined, replica: undefined, quorum: undefined, store: undefined },
      aNode('f', '1', [0, 0, 0]),
      aNode('g', '1', [0, 0, 5, 3_000]),
      aNode('h', '1', [0, 0, 5, -61_000]),
    ]),
  ).toBe(
    'shard 2 has no usable replica, so queries of events fail; a lacks the rows of the last 35 s; b is read-only, for example without Keeper; c does not answer; d does not answer; e does not answer; f has no tables; restart Questlog to create them; g has a clock that differs by 3 s, so inserts can fail or take effect too late; h has a clock that differs by 61 s, so inserts can fail or take effect too late',
  );
});
