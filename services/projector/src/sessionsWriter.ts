/** The projection of `questlog.sessions.v1`: of an id registered twice, the first record in the log is the session. */

import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import type { Block, BlockWriter } from '@questlog/runtime/consumer/blocks';
import { insertOnce } from '@questlog/runtime/consumer/insertOnce';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { type RowsFor, type Source, tokenOf } from './events/rows.ts';
import { openFirsts } from './firstOfEach.ts';
import { type Dead, type Decoded, decodeAll, type WriterDeps } from './writer.ts';

interface SessionsPlan {
  readonly block: Block;
  readonly dead: readonly Dead[];
  readonly kept: readonly Decoded<SessionRegistered>[];
}

export function openSessionsWriter(deps: WriterDeps<SessionRegistered>): BlockWriter<SessionsPlan> {
  const { store, codec, deadLetters, onOutcome } = deps;
  const source = { logId: deps.logId, partition: deps.partition };
  const firsts = openFirsts<SessionRegistered>({
    store,
    source,
    table: 'sessions',
    nameOf: ({ projectId, sessionId }) => ({ projectId, id: sessionId }),
  });
  return {
    plan: async (block) => {
      const { decoded, dead } = await decodeAll(codec, block.records);
      const kept = await firsts.firstOfEach(block, decoded);
      deadLetters.passed(decoded.length);
      onOutcome('written', kept.length);
      onOutcome('repeated', decoded.length - kept.length);
      return { block, dead, kept };
    },
    apply: async ({ block, dead, kept }, attempt) => {
      const held = () => firsts.offsetsHeld(block, kept);
      await insertOnce(store, { ...sessionRows(source, kept), token: tokenOf(source, block), held }, attempt);
      // Last: an insert that fails is repeated, and each repeat would bury them again.
      for (const { record, cause } of dead) await deadLetters.bury(block, record, cause);
      onOutcome('dead', dead.length);
    },
    bury: async (block, cause) => {
      for (const record of block.records) await deadLetters.bury(block, record, cause);
      onOutcome('dead', block.records.length);
    },
  };
}

function sessionRows(source: Source, sessions: readonly Decoded<SessionRegistered>[]): RowsFor {
  return {
    table: 'sessions',
    columns: [
      'tenant_id',
      'project_id',
      'id',
      'build_id',
      'started_at',
      'registered_at',
      'lane',
      'log_id',
      'log_partition',
      'log_offset',
    ],
    write: (wanted) => {
      const out = new RowBinaryWriter();
      for (const { offset, message } of sessions) {
        if (!wanted(offset)) continue;
        out.uuid(message.tenantId);
        out.uuid(message.projectId);
        out.uuid(message.sessionId);
        out.nullableUuid(message.buildId);
        out.uint8(message.startedAt === null ? 1 : 0);
        if (message.startedAt !== null) out.int64(message.startedAt);
        out.int64(BigInt(message.registeredAt));
        out.uint32(message.lane);
        out.uuid(source.logId);
        out.uint32(source.partition);
        out.uint64(offset);
      }
      return out.bytes();
    },
  };
}
