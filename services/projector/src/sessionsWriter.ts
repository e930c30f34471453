/** The projection of `questlog.sessions.v1`: of an id registered twice, the first record in the log is the session. */
import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import type { BlockWriter } from '@questlog/runtime/consumer/blocks';
import { insertOnce } from '@questlog/runtime/consumer/insertOnce';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { type RowsFor, tokenOf } from './events/rows.ts';
import { openFirsts } from './firstOfEach.ts';
import { type Decoded, type Source, type WriterDeps, writerOf } from './writer.ts';

export function openSessionsWriter(deps: WriterDeps<SessionRegistered>): BlockWriter<unknown> {
  const { store, logId, partition, onOutcome } = deps;
  const source = { logId, partition };
  const firsts = openFirsts<SessionRegistered>({
    store,
    source,
    table: 'sessions',
    nameOf: ({ projectId, sessionId }) => ({ projectId, id: sessionId }),
  });
  return writerOf<SessionRegistered, readonly Decoded<SessionRegistered>[]>(deps, {
    plan: async (block, decoded) => {
      const kept = await firsts.firstOfEach(block, decoded);
      onOutcome('written', kept.length);
      onOutcome('repeated', decoded.length - kept.length);
      return kept;
    },
    apply: async (kept, block, attempt) => {
      const held = () => firsts.offsetsHeld(block, kept);
      await insertOnce(store, { ...sessionRows(source, kept), token: tokenOf(source, block), held }, attempt);
    },
  });
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
        out.nullable(message.startedAt, (startedAt) => out.int64(startedAt));
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
