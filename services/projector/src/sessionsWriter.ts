/**
 * Writes the records of the topic `questlog.sessions.v1` to ClickHouse. The first record of a session id defines the session.
 */

import type { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import { rowTable } from '@questlog/runtime/clickhouse/rowTable';
import type { BlockWriter } from '@questlog/runtime/consumer/blockWriter';
import {
  contentDigest,
  type SessionRegistered,
  sessionFault,
} from '@questlog/schemas/topics/sessionRegistered';
import { type EntityTable, firstRecords, storedFirstOffsets } from './firstRecords.ts';
import { insertBlock, POSITION_COLUMNS, type RecordRow } from './rowSink.ts';
import { visibleSessions } from './visible.ts';
import { type DecodedRecord, type WriterDeps, writerOf } from './writer.ts';

const NO_METADATA = Buffer.from('{}');

export function openSessionsWriter(deps: WriterDeps<SessionRegistered>): BlockWriter<unknown> {
  const { store, logId, partition, orphanIds, onOutcome } = deps;
  const source = { logId, partition, orphanIds };
  const entities: EntityTable<SessionRegistered> = {
    store,
    source,
    table: 'sessions',
    idOf: ({ projectId, sessionId }) => ({ projectId, id: sessionId }),
  };
  return writerOf<SessionRegistered, readonly DecodedRecord<SessionRegistered>[]>(deps, {
    visibleRecords: visibleSessions,
    faultOf: sessionFault,
    plan: async (block, decoded) => {
      const kept = await firstRecords(entities, block, decoded);
      onOutcome('written', kept.length);
      onOutcome('repeated', decoded.length - kept.length);
      return kept;
    },
    apply: async (kept, block, attempt) => {
      const stored = () => storedFirstOffsets(entities, block, kept);
      await insertBlock(store, SESSIONS, { source, block, records: kept, storedOffsets: stored }, attempt);
    },
  });
}

const SESSIONS = rowTable<RecordRow<SessionRegistered>>('sessions', {
  tenant_id: (out, { message }) => out.uuid(message.tenantId),
  project_id: (out, { message }) => out.uuid(message.projectId),
  id: (out, { message }) => out.uuid(message.sessionId),
  build_id: (out, { message }) => out.nullableUuid(message.buildId),
  started_at: (out, { message }) => out.nullable(message.startedAt, (startedAt) => out.int64(startedAt)),
  registered_at: (out, { message }) => out.int64(BigInt(message.registeredAt)),
  lane: (out, { message }) => out.uint32(message.lane),
  ...POSITION_COLUMNS,
  version: (out, { message }) => nullableText(out, message.build?.version),
  platform: (out, { message }) => nullableText(out, message.build?.platform),
  git_commit: (out, { message }) => nullableText(out, message.build?.gitCommit),
  channel: (out, { message }) => nullableText(out, message.build?.channel),
  player_external_id: (out, { message }) => nullableText(out, message.playerExternalId),
  player_device_id: (out, { message }) => nullableText(out, message.playerDeviceId),
  metadata: (out, { message }) => out.stringBytes(message.metadata ?? NO_METADATA),
  content_sha256: (out, { message }) =>
    out.nullable(contentDigest(message), (digest) => out.bytes(Buffer.from(digest, 'hex'))),
});

function nullableText(out: RowBinaryWriter, text: string | null | undefined): void {
  out.nullable(text ?? null, (value) => out.string(value));
}
