/** The projection of `questlog.sessions.v1`: of an id registered twice, the first record in the log is the session. */
import type { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import type { BlockWriter } from '@questlog/runtime/consumer/blockWriter';
import {
  contentDigest,
  type SessionRegistered,
  sessionFault,
} from '@questlog/schemas/topics/sessionRegistered';
import { type Firsts, firstOfEach, firstOffsetsHeld } from './firstOfEach.ts';
import { insertBlock, PLACE_COLUMNS, type RowOf, rowTable } from './rowSink.ts';
import { type Decoded, type WriterDeps, writerOf } from './writer.ts';

const NO_METADATA = Buffer.from('{}');

export function openSessionsWriter(deps: WriterDeps<SessionRegistered>): BlockWriter<unknown> {
  const { store, logId, partition, orphanIds, onOutcome } = deps;
  const source = { logId, partition, orphanIds };
  const firsts: Firsts<SessionRegistered> = {
    store,
    source,
    table: 'sessions',
    nameOf: ({ projectId, sessionId }) => ({ projectId, id: sessionId }),
  };
  return writerOf<SessionRegistered, readonly Decoded<SessionRegistered>[]>(deps, {
    faultOf: sessionFault,
    plan: async (block, decoded) => {
      const erased = await deps.erased.latest();
      const left = decoded.filter(
        ({ message }) => erased.by({ ...message, receivedAt: message.registeredAt }) === undefined,
      );
      const kept = await firstOfEach(firsts, block, left);
      onOutcome('written', kept.length);
      onOutcome('ignored', decoded.length - left.length);
      onOutcome('repeated', left.length - kept.length);
      return kept;
    },
    apply: async (kept, block, attempt) => {
      const held = () => firstOffsetsHeld(firsts, block, kept);
      await insertBlock(store, SESSIONS, { source, block, records: kept, held }, attempt);
    },
  });
}

const SESSIONS = rowTable<RowOf<SessionRegistered>>('sessions', {
  tenant_id: (out, { message }) => out.uuid(message.tenantId),
  project_id: (out, { message }) => out.uuid(message.projectId),
  id: (out, { message }) => out.uuid(message.sessionId),
  build_id: (out, { message }) => out.nullableUuid(message.buildId),
  started_at: (out, { message }) => out.nullable(message.startedAt, (startedAt) => out.int64(startedAt)),
  registered_at: (out, { message }) => out.int64(BigInt(message.registeredAt)),
  lane: (out, { message }) => out.uint32(message.lane),
  ...PLACE_COLUMNS,
  version: (out, { message }) => nullableText(out, message.build?.version),
  platform: (out, { message }) => nullableText(out, message.build?.platform),
  git_commit: (out, { message }) => nullableText(out, message.build?.gitCommit),
  channel: (out, { message }) => nullableText(out, message.build?.channel),
  player_external_id: (out, { message }) => nullableText(out, message.playerExternalId),
  player_device_id: (out, { message }) => nullableText(out, message.playerDeviceId),
  metadata: (out, { message }) => out.stringBytes(message.metadata ?? NO_METADATA),
  content_sha256: (out, { message }) =>
    out.nullable(contentDigest(message), (digest) => out.fixed(Buffer.from(digest, 'hex'))),
});

function nullableText(out: RowBinaryWriter, text: string | null | undefined): void {
  out.nullable(text ?? null, (value) => out.string(value));
}
