/** The projection of `questlog.sessions.v1`: of an id registered twice, the first record in the log is the session. */
import type { Block, BlockWriter } from '@questlog/runtime/consumer/blocks';
import { insertOnce } from '@questlog/runtime/store/insertOnce';
import { RowBinaryWriter } from '@questlog/runtime/store/rowBinary';
import type { Store } from '@questlog/runtime/store/store';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { type Dead, type Decoded, decodeAll } from './decodeAll.ts';
import { type RowsFor, type Source, tokenOf } from './eventRows.ts';
import type { WriterDeps } from './writerDeps.ts';

interface SessionsPlan {
  readonly block: Block;
  readonly dead: readonly Dead[];
  readonly kept: readonly Decoded<SessionRegistered>[];
}

export function openSessionsWriter(deps: WriterDeps<SessionRegistered>): BlockWriter<SessionsPlan> {
  const { store, codec, deadLetters, onOutcome } = deps;
  const source = { logId: deps.logId, partition: deps.partition };
  return {
    plan: async (block) => {
      const { decoded, dead } = await decodeAll(codec, block.records);
      const kept = await firstOfEach(store, source, block, decoded);
      deadLetters.passed(decoded.length);
      onOutcome('written', kept.length);
      onOutcome('repeated', decoded.length - kept.length);
      return { block, dead, kept };
    },
    apply: async ({ block, dead, kept }, verify) => {
      const held = async () => {
        const rows = await heldSessions(store, kept);
        return new Set(
          rows.filter((row) => isOfBlock(row, source, block)).map((row) => Number(row.log_offset)),
        );
      };
      await insertOnce(store, { ...sessionRows(source, kept), token: tokenOf(source, block), held }, verify);
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

/** Leaves out what an earlier record registered, in this block or in the table (this very block's rows are no rival). */
async function firstOfEach(
  store: Store,
  source: Source,
  block: Block,
  decoded: readonly Decoded<SessionRegistered>[],
): Promise<Decoded<SessionRegistered>[]> {
  const taken = new Set<string>();
  for (const row of await heldSessions(store, decoded)) {
    if (!isOfBlock(row, source, block)) taken.add(`${row.project_id}/${row.id}`);
  }
  return decoded.filter(({ message: { projectId, sessionId } }) => {
    const name = `${projectId}/${sessionId}`;
    if (taken.has(name)) return false;
    taken.add(name);
    return true;
  });
}

/** Rows of other logs and of the same ids in other projects come along with a look-up. */
function isOfBlock(row: HeldSession, source: Source, block: Block): boolean {
  const offset = Number(row.log_offset);
  return (
    row.log_id === source.logId &&
    row.log_partition === source.partition &&
    offset >= block.start &&
    offset < block.end
  );
}

interface HeldSession {
  readonly project_id: string;
  readonly id: string;
  readonly log_id: string;
  readonly log_partition: number;
  readonly log_offset: string;
}

/** Sessions of one `IN` list. */
const MAX_SESSIONS = 2_500;

async function heldSessions(
  store: Store,
  wanted: readonly Decoded<SessionRegistered>[],
): Promise<HeldSession[]> {
  const held: HeldSession[] = [];
  for (let i = 0; i < wanted.length; i += MAX_SESSIONS) {
    const messages = wanted.slice(i, i + MAX_SESSIONS).map(({ message }) => message);
    const rows = await store.query<HeldSession>(
      `SELECT project_id, id, log_id, log_partition, log_offset FROM sessions
       WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}`,
      {
        projects: [...new Set(messages.map((message) => message.projectId))],
        ids: messages.map((message) => message.sessionId),
      },
    );
    held.push(...rows);
  }
  return held;
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
