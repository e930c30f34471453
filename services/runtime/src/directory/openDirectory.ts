/** Keeps the tenants, projects, and tokens of a topic up to date in memory, and appends changes to the topic. */
import {
  type DirectoryEntry,
  directoryEntry,
  type EntityKind,
  entityKey,
} from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Headers, Log, Tail } from '../log/log.ts';
import { waitForEndOffset } from '../log/waitForEndOffset.ts';
import { waitForTail } from '../log/waitForTail.ts';
import { Invalid, Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { coalesceCalls, withinLimit } from '../process/waiting.ts';
import { createPreservingCodec } from '../registry/preservingCodec.ts';
import type { Codec, SchemaRegistry } from '../registry/registry.ts';
import { openTailDecoder, type TailDecoder } from '../registry/tailDecoder.ts';
import { CompactionGuard } from './compactionGuard.ts';
import { applyEntry, type Directory, emptyDirectory, replaceWith } from './directory.ts';
import { EffectiveRecords } from './effectiveRecords.ts';
import {
  type DecodeEntry,
  type RebuiltDirectory,
  type RepairedTruncation,
  repairTruncation,
} from './repairTruncation.ts';

export interface DirectoryHandle {
  readonly current: Directory;
  /** Appends an entity without a conflict check. Null appends a tombstone. Resolves after this process has read the record. */
  put<K extends EntityKind>(kind: K, id: string, entity: Entity<K> | null): Promise<void>;
  /**
   * Changes an entity with optimistic concurrency control. Calls `decide` again if another process has changed the entity.
   * Resolves after this process has read the change.
   * @throws Unavailable if the log cannot be read in time, or after too many conflicts.
   */
  change<K extends EntityKind, T>(kind: K, id: string, decide: Decide<K, T>): Promise<T>;
  /** Resolves after this process has read all records that the log contains now. @throws Unavailable after `WAIT_MS`. */
  caughtUp(): Promise<void>;
  onTruncation(listener: (truncation: RepairedTruncation) => void): void;
  /** Calls the listener after this process has read a change of `current.readers`. */
  onReaders(listener: () => void): void;
  /** Returns the offset below which this process has read the topic. */
  readOffset(): number;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/** Decides what a change writes. A null `entity` writes a tombstone. An undefined `entity` writes nothing. */
export type Decide<K extends EntityKind, T> = (current: Entity<K> | undefined) => {
  readonly entity?: Entity<K> | null;
  readonly answer: T;
};

type Entity<K extends EntityKind> = NonNullable<DirectoryEntry[K]>;

const EMPTY_ENTRY: DirectoryEntry = { tenant: null, project: null, token: null };
const READER_KEYS = entityKey('reader', '');
const WAIT_MS = 5_000;
const COPY_AFTER_MS = 5_000;
const MAX_ATTEMPTS = 20;

/** @param waitMs the maximum time that `change` waits until this process has read the topic to the end */
export async function openDirectory(
  log: Log,
  registry: SchemaRegistry,
  logger: Logger,
  { waitMs = WAIT_MS, copyAfterMs = COPY_AFTER_MS } = {},
): Promise<DirectoryHandle> {
  const codec = await createPreservingCodec(registry, directoryEntry);
  const decoder = openTailDecoder({ codec, logger, topic: TOPICS.directory });
  const current = emptyDirectory();
  const effectiveRecords = new EffectiveRecords();
  const compactionGuard = new CompactionGuard(log, logger, effectiveRecords, copyAfterMs);
  const pendingChanges = new Set<Set<number>>();
  const decodeEntry = entryDecoder(decoder, logger);
  const closed = new AbortController();
  const listeners: ((truncation: RepairedTruncation) => void)[] = [];
  const readerListeners: (() => void)[] = [];
  /** Records below this offset are skipped, because the repair of a truncation has already read them. */
  let rebuiltTo = 0;
  let repaired: Promise<void> = Promise.resolve();
  const applyRebuilt = (rebuilt: RebuiltDirectory): void => {
    replaceWith(current, rebuilt.current);
    effectiveRecords.replaceWith(rebuilt.predecessors);
    for (const [key, isLast] of effectiveRecords.lastRecords()) compactionGuard.onRecord(key, isLast);
    for (const ineffectiveOffsets of pendingChanges)
      for (const offset of rebuilt.ineffectiveOffsets) ineffectiveOffsets.add(offset);
    rebuiltTo = rebuilt.end;
    for (const listener of [...listeners, ...readerListeners]) listener(rebuilt);
  };
  const tail = await log.tail({
    topic: TOPICS.directory,
    from: 'earliest',
    // Tokens in memory stay valid during the repair, although the truncated log may lack their records.
    onTruncated: ({ offset }) => {
      const truncation = { before: effectiveRecords, offset, signal: closed.signal };
      repaired = repairTruncation(log, decodeEntry, truncation, logger).then(applyRebuilt);
      return repaired;
    },
    onBatch: async (batch) => {
      for (const record of batch.records) {
        if (record.offset < rebuiltTo) continue;
        const entry = await decodeEntry(record, batch.partition);
        // The statements below must not await, because a concurrent change would see a partially applied record.
        const isEffective = effectiveRecords.accept(record);
        compactionGuard.onRecord(record.key ?? '', isEffective);
        if (!isEffective)
          for (const ineffectiveOffsets of pendingChanges) ineffectiveOffsets.add(record.offset);
        else if (entry !== undefined) applyEntry(current, record.key ?? '', entry);
        if (record.key?.startsWith(READER_KEYS)) for (const listener of readerListeners) listener();
      }
    },
  });
  await tail.waitForOffsets([await waitForEndOffset(log, logger, TOPICS.directory)]);
  const shared = {
    ...{ log, codec, tail, current, effectiveRecords, compactionGuard, pendingChanges },
    ...{ whenRepaired: () => repaired, waitMs },
  };
  return {
    current,
    failed: tail.failed,
    put: (kind, id, entity) => append(shared, kind, id, { entity, headers: {} }).then(() => undefined),
    change: (kind, id, decide) => change(shared, kind, id, decide),
    caughtUp: coalesceCalls(async () => await readUpTo(shared, await log.endOffsets(TOPICS.directory))),
    onTruncation: (listener) => void listeners.push(listener),
    onReaders: (listener) => void readerListeners.push(listener),
    readOffset: () => tail.positions()[0] ?? 0,
    close: () => {
      closed.abort(new Unavailable('the directory was closed'));
      compactionGuard.close();
      decoder.close();
      return tail.close();
    },
  };
}

function entryDecoder(decoder: TailDecoder<DirectoryEntry>, logger: Logger): DecodeEntry {
  return async (record, partition) => {
    try {
      return record.value === null ? null : await decoder.decode(record, partition);
    } catch (error) {
      if (!(error instanceof Invalid)) throw error;
      logger.error('directory_record_skipped', error, { topic: TOPICS.directory, offset: record.offset });
      return undefined;
    }
  };
}

interface Shared {
  readonly log: Log;
  readonly codec: Codec<DirectoryEntry>;
  readonly tail: Tail;
  readonly whenRepaired: () => Promise<void>;
  readonly current: Directory;
  readonly effectiveRecords: EffectiveRecords;
  readonly compactionGuard: CompactionGuard;
  /** For each call of `change` that is in progress, the offsets of the records that were ignored during the call. */
  readonly pendingChanges: Set<Set<number>>;
  readonly waitMs: number;
}

async function change<K extends EntityKind, T>(
  shared: Shared,
  kind: K,
  id: string,
  decide: Decide<K, T>,
): Promise<T> {
  const { log, effectiveRecords, compactionGuard, pendingChanges } = shared;
  const key = entityKey(kind, id);
  await readUpTo(shared, await log.endOffsets(TOPICS.directory));
  const ineffectiveOffsets = new Set<number>();
  pendingChanges.add(ineffectiveOffsets);
  let isLastIneffective = false;
  try {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const { entity, answer } = decide(entityOf(shared.current, kind, id));
      if (entity === undefined) return answer;
      isLastIneffective = false;
      const headers = effectiveRecords.headersFor(key);
      const offset = await append(shared, kind, id, { entity, headers });
      if (!ineffectiveOffsets.has(offset)) return answer;
      isLastIneffective = true;
    }
  } finally {
    pendingChanges.delete(ineffectiveOffsets);
    if (isLastIneffective) await compactionGuard.appendCopy(key);
  }
  throw new Unavailable(`other processes keep changing the ${kind}; nothing was changed`);
}

function entityOf<K extends EntityKind>(current: Directory, kind: K, id: string): Entity<K> | undefined {
  const entities: { readonly [Kind in EntityKind]: ReadonlyMap<string, Entity<Kind>> } = {
    tenant: current.tenants,
    project: current.projects,
    token: current.tokens,
    use: current.uses,
    secret: current.secrets,
    erasure: current.erasures,
    ...{ heartbeat: current.heartbeats, reader: current.readers, export: current.exports },
  };
  return entities[kind].get(id);
}

async function append<K extends EntityKind>(
  shared: Shared,
  kind: K,
  id: string,
  { entity, headers }: { entity: Entity<K> | null; headers: Headers },
): Promise<number> {
  const value = entity === null ? null : shared.codec.encode({ ...EMPTY_ENTRY, [kind]: entity });
  const records = [{ key: entityKey(kind, id), value, headers }];
  const { baseOffset } = await shared.log.append(TOPICS.directory, 0, records);
  await readUpTo(shared, [baseOffset + 1]);
  return baseOffset;
}

async function readUpTo({ tail, whenRepaired, waitMs }: Shared, offsets: readonly number[]): Promise<void> {
  const message = 'this process has not read the log up to its end yet; retry';
  await withinLimit(whenRepaired(), waitMs, () => {
    throw new Unavailable(message);
  });
  await waitForTail(tail, offsets, { limitMs: waitMs, message });
}
