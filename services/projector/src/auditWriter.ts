/**
 * Writes the records of the topic `questlog.audit.v1` to ClickHouse. Each change by an operator gets one row for the request
 * and one row for the outcome.
 */
import { rowTable } from '@questlog/runtime/clickhouse/rowTable';
import type { BlockWriter } from '@questlog/runtime/consumer/blockWriter';
import type { AuditEntry } from '@questlog/schemas/topics/auditEntry';
import { POSITION_COLUMNS, type RecordRow, writeRows } from './rowSink.ts';
import { type WriterDeps, writerOf } from './writer.ts';

export function openAuditWriter(deps: WriterDeps<AuditEntry>): BlockWriter<unknown> {
  const { logId, partition, orphanIds } = deps;
  return writerOf<AuditEntry, readonly RecordRow<AuditEntry>[]>(deps, {
    plan: async (_, decoded) =>
      decoded.map(({ offset, message }) => ({ position: { logId, partition, orphanIds, offset }, message })),
    apply: async (rows) => {
      await writeRows(deps.store, AUDIT, rows);
      deps.onOutcome('written', rows.length);
    },
  });
}

const VERSIONS = { asked: 0, answered: 1 } as const;

const AUDIT = rowTable<RecordRow<AuditEntry>>('audit_versions', {
  id: (out, { message }) => out.uuid(message.id),
  kind: (out, { message }) => out.string(message.kind),
  at: (out, { message }) => out.int64(BigInt(message.at)),
  done_at: (out, { message }) => out.nullable(message.doneAt, (doneAt) => out.int64(BigInt(doneAt))),
  actor: (out, { message }) => out.string(message.actor),
  address: (out, { message }) => out.string(message.address),
  method: (out, { message }) => out.string(message.method),
  route: (out, { message }) => out.string(message.route),
  target: (out, { message }) => out.nullable(message.target, (text) => out.string(text)),
  tenant_id: (out, { message }) => out.nullableUuid(message.tenantId),
  project_id: (out, { message }) => out.nullableUuid(message.projectId),
  body: (out, { message }) => out.nullable(message.body, (text) => out.string(text)),
  before: (out, { message }) => out.nullable(message.before, (text) => out.string(text)),
  after: (out, { message }) => out.nullable(message.after, (text) => out.string(text)),
  status: (out, { message }) => out.nullable(message.status, (status) => out.uint16(status)),
  code: (out, { message }) => out.nullable(message.code, (text) => out.string(text)),
  count: (out, { message }) => out.uint64(message.count),
  version: (out, { message }) => out.uint8(message.doneAt === null ? VERSIONS.asked : VERSIONS.answered),
  ...POSITION_COLUMNS,
});
