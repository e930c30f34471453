/** The directory kept current by a tail of its topic, and the one way to write to it. */
import {
  type DirectoryEntry,
  directoryEntry,
  type EntityKind,
  entityKey,
} from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Log } from '../log/log.ts';
import { Invalid } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { createCodec, type SchemaRegistry } from '../registry/registry.ts';
import { openTailDecoder } from '../registry/tailDecoder.ts';
import { applyEntry, type Directory, emptyDirectory } from './directory.ts';

export interface DirectoryHandle {
  readonly current: Directory;
  /** Appends an entity (null: a tombstone) and returns once this process has read it back. */
  put<K extends EntityKind>(kind: K, id: string, entity: DirectoryEntry[K]): Promise<void>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

const NOTHING: DirectoryEntry = { tenant: null, project: null, token: null };

/** Resolves once everything that was in the topic has been read. */
export async function openDirectory(deps: {
  log: Log;
  registry: SchemaRegistry;
  logger: Logger;
}): Promise<DirectoryHandle> {
  const { log, logger } = deps;
  const codec = await createCodec(deps.registry, directoryEntry);
  const decoder = openTailDecoder({ codec, logger, topic: TOPICS.directory });
  const current = emptyDirectory();
  const tail = await log.tail({
    topic: TOPICS.directory,
    from: 'earliest',
    onBatch: async (batch) => {
      for (const record of batch.records) {
        try {
          applyEntry(
            current,
            record.key ?? '',
            record.value === null ? null : await decoder.decode(record, batch.partition),
          );
        } catch (error) {
          if (!(error instanceof Invalid)) throw error;
          logger.error('directory_record_skipped', error, { topic: batch.topic, offset: record.offset });
        }
      }
    },
  });
  await tail.reached(await log.endOffsets(TOPICS.directory));
  return {
    current,
    failed: tail.failed,
    put: async (kind, id, entity) => {
      const value = entity === null ? null : codec.encode({ ...NOTHING, [kind]: entity });
      const { baseOffset } = await log.append(TOPICS.directory, 0, [{ key: entityKey(kind, id), value }]);
      await tail.reached([baseOffset + 1]);
    },
    close: () => {
      decoder.close();
      return tail.close();
    },
  };
}
