import { expect, test } from 'vitest';
import type { ProjectionLog } from '../../log/projection/projection.ts';
import { createHealth } from '../../process/health.ts';
import type { Store } from '../store.ts';
import { TableIncomplete, warnIfRestored, watchRestoredTable } from './restoredTable.ts';

/** Returns the watched table `sessions`. A test changes the offsets, the UUIDs, and the time in `state`. */
function aTable() {
  const state = { committed: 0, end: 2, committedUuid: 'first', uuid: 'first', nowMs: 0 };
  const log: ProjectionLog = {
    committed: async () => [
      { offset: state.committed, metadata: JSON.stringify({ tables: state.committedUuid }) },
    ],
    endOffset: async () => state.end,
    endOffsets: async () => [state.end],
    offsetRanges: async () => [{ startOffset: 0, endOffset: state.end }],
  };
  const query = (async () => [{ name: 'sessions', uuid: state.uuid }]) as Store['query'];
  const table = watchRestoredTable(
    { log, store: { query }, clock: { now: () => state.nowMs } },
    { group: 'projector', topic: 'sessions', table: 'sessions' },
  );
  return { state, table };
}

test('a restored table is incomplete until the projector has filled it again', async () => {
  const { state, table } = aTable();
  Object.assign(state, { committed: 2, uuid: 'restored' });
  const error = await table.errorIfIncomplete([2]);
  expect(error).toBeInstanceOf(TableIncomplete);
  expect(error).toMatchObject({ retryAfterS: 10, message: expect.stringContaining('sessions was restored') });
  Object.assign(state, { committed: 1, committedUuid: 'restored', nowMs: 1_001 });
  expect(await table.errorIfIncomplete([2])).toBeInstanceOf(TableIncomplete);
  Object.assign(state, { committed: 2, nowMs: 2_002 });
  expect(await table.errorIfIncomplete([2])).toBeUndefined();
});

test('a table is complete if records were projected since the last check', async () => {
  const { state, table } = aTable();
  state.committed = 1;
  expect(await table.errorIfIncomplete([1])).toBeUndefined();
  state.committed = 2;
  expect(await table.errorIfIncomplete([2])).toBeUndefined();
});

test('does not wait for records that a truncation removed', async () => {
  const { state, table } = aTable();
  state.committed = 2;
  expect(await table.errorIfIncomplete([5])).toBeUndefined();
  Object.assign(state, { committed: 1, nowMs: 1_001 });
  expect(await table.errorIfIncomplete([5])).toBeInstanceOf(TableIncomplete);
});

test('warns while a restored table is incomplete', async () => {
  const { state, table } = aTable();
  Object.assign(state, { committed: 2, uuid: 'restored' });
  const health = createHealth();
  warnIfRestored(health, [{ errorIfIncomplete: () => table.errorIfIncomplete([2]) }]);
  const warning = async () => (await health.state()).warnings['restored'];
  await expect.poll(warning).toContain('sessions was restored');
  Object.assign(state, { committedUuid: 'restored', nowMs: 1_001 });
  await expect.poll(warning).toBeUndefined();
});
