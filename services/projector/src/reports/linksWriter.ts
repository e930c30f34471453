/** The projection of `questlog.linked-events.v1`: which events a report has, and which were taken from it. */
import type { Block, BlockWriter } from '@questlog/runtime/consumer/blocks';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import { RowSink } from '../rowSink.ts';
import { type Dead, type Decoded, decodeAll, type WriterDeps } from '../writer.ts';
import { type LinkRow, linkTable } from './rows.ts';

interface LinksPlan {
  readonly block: Block;
  readonly dead: readonly Dead[];
  readonly rows: readonly LinkRow[];
}

export function openLinksWriter(deps: WriterDeps<LinkedEvent>): BlockWriter<LinksPlan> {
  const { store, codec, deadLetters, onOutcome } = deps;
  const table = linkTable({ logId: deps.logId, partition: deps.partition });
  return {
    plan: async (block) => {
      const { decoded, dead } = await decodeAll(codec, block.records, faultOf);
      deadLetters.passed(decoded.length);
      // The events' payloads are let go of here.
      return { block, dead, rows: decoded.map(rowOf) };
    },
    apply: async ({ block, dead, rows }) => {
      const sink = new RowSink(store, table);
      await sink.add(rows);
      await sink.flush();
      onOutcome('written', rows.length);
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

/** What the table's column holds. */
const MAX_VERSION = 255;

function faultOf({ version }: LinkedEvent): string | undefined {
  return version >= 0 && version <= MAX_VERSION ? undefined : `version must be from 0 to ${MAX_VERSION}`;
}

function rowOf({ offset, message }: Decoded<LinkedEvent>): LinkRow {
  const { tenantId, projectId, reportId, event, kind, source, version, changedAt } = message;
  const state = kind === 'linked' ? 'linked' : 'retracted';
  return { tenantId, projectId, reportId, eventId: event.id, state, source, version, changedAt, offset };
}
