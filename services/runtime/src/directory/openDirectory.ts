/** The directory kept current by a tail of its topic, and the ways to write to it. */
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
import { nextRound, withinLimit } from '../process/waiting.ts';
import { createCarryingCodec } from '../registry/carryingCodec.ts';
import type { Codec, SchemaRegistry } from '../registry/registry.ts';
import { openTailDecoder } from '../registry/tailDecoder.ts';
import { type CutDirectory, type DecodeEntry, type ReadAnew, untilMended } from './afterCut.ts';
import { applyEntry, become, type Directory, emptyDirectory } from './directory.ts';
import { Predecessors } from './predecessors.ts';
import { Repeats } from './repeats.ts';

export interface DirectoryHandle {
  readonly current: Directory;
  /** Appends an entity (null: a tombstone) unconditionally, and returns once this process has read it back. */
  put<K extends EntityKind>(kind: K, id: string, entity: Known<K> | null): Promise<void>;
  /**
   * Changes an entity as if nobody else did. `decide` sees the entity as the whole log has it (`current`, too), and runs
   * again where another process was faster. Returns once this process has read the change back. If nothing is written in
   * the end, it returns once an earlier try is no longer the last record of its key.
   * @throws Unavailable when this process cannot read on for `WAIT_MS`, or others were faster `MAX_TRIES` times; what
   *   `decide` throws.
   */
  change<K extends EntityKind, T>(kind: K, id: string, decide: Decide<K, T>): Promise<T>;
  /** Resolves once this process knows what the log had when it was asked. @throws Unavailable when that takes `WAIT_MS`. */
  caughtUp(): Promise<void>;
  /** Has it hear of each cut of the topic, once what was missing is there again. */
  onCut(hears: (cut: CutDirectory) => void): void;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/** Without an entity nothing is written; null is a tombstone. */
export type Decide<K extends EntityKind, T> = (known: Known<K> | undefined) => {
  readonly entity?: Known<K> | null;
  readonly answer: T;
};

type Known<K extends EntityKind> = NonNullable<DirectoryEntry[K]>;

const NOTHING: DirectoryEntry = { tenant: null, project: null, token: null };
const WAIT_MS = 5_000;
/** By then a process that can decide again has done so. */
const REPEAT_AFTER_MS = 5_000;
const MAX_TRIES = 20;

export interface DirectoryDeps {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  readonly logger: Logger;
  /** The time for which a change waits until this process has read the log's end. */
  readonly waitMs?: number;
  /** The time after a last record that does not count until the record that counts is repeated. */
  readonly repeatAfterMs?: number;
}

/** Resolves once it has read the whole topic. */
export async function openDirectory(deps: DirectoryDeps): Promise<DirectoryHandle> {
  const { log, logger } = deps;
  const codec = await createCarryingCodec(deps.registry, directoryEntry);
  const decoder = openTailDecoder({ codec, logger, topic: TOPICS.directory });
  const current = emptyDirectory();
  const predecessors = new Predecessors();
  const repeats = new Repeats({ log, logger, predecessors, afterMs: deps.repeatAfterMs ?? REPEAT_AFTER_MS });
  const changesUnderWay = new Set<Set<number>>();
  const decoded: DecodeEntry = async (record, partition) => {
    try {
      return record.value === null ? null : await decoder.decode(record, partition);
    } catch (error) {
      if (!(error instanceof Invalid)) throw error;
      logger.error('directory_record_skipped', error, { topic: TOPICS.directory, offset: record.offset });
      return undefined;
    }
  };
  const closed = new AbortController();
  const hearers: ((cut: CutDirectory) => void)[] = [];
  /** What is below was read beside the tail, after a cut. */
  let end = 0;
  let whole: Promise<void> = Promise.resolve();
  const take = (read: ReadAnew): void => {
    become(current, read.current);
    predecessors.become(read.predecessors);
    for (const [key, isLast] of predecessors.keys()) repeats.read(key, isLast);
    for (const lost of changesUnderWay) for (const offset of read.uncounted) lost.add(offset);
    end = read.end;
    for (const hears of hearers) hears(read);
  };
  const tail = await log.tail({
    topic: TOPICS.directory,
    from: 'earliest',
    // Until it is mended what was known goes on: a game must not be told that its token is none.
    onTruncated: (_, offset) => {
      const cut = { known: predecessors, offset, signal: closed.signal };
      whole = untilMended({ log, logger, decode: decoded }, cut).then(take);
      return whole;
    },
    onBatch: async (batch) => {
      for (const record of batch.records) {
        if (record.offset < end) continue;
        const entry = await decoded(record, batch.partition);
        // Nothing is awaited from here on: a change must not see a half applied record.
        const counts = predecessors.accept(record);
        repeats.read(record.key ?? '', counts);
        if (!counts) for (const lost of changesUnderWay) lost.add(record.offset);
        else if (entry !== undefined) applyEntry(current, record.key ?? '', entry);
      }
    },
  });
  await tail.waitForOffsets([await waitForEndOffset(log, logger, TOPICS.directory)]);
  const waitMs = deps.waitMs ?? WAIT_MS;
  const isWhole = () => whole;
  const shared = { log, codec, tail, isWhole, current, predecessors, repeats, changesUnderWay, waitMs };
  return {
    current,
    failed: tail.failed,
    put: (kind, id, entity) => append(shared, kind, id, { entity, headers: {} }).then(() => undefined),
    change: (kind, id, decide) => change(shared, kind, id, decide),
    caughtUp: nextRound(async () => await readUpTo(shared, await log.endOffsets(TOPICS.directory))),
    onCut: (hears) => void hearers.push(hears),
    close: () => {
      closed.abort(new Unavailable('the directory was closed'));
      repeats.close();
      decoder.close();
      return tail.close();
    },
  };
}

interface Shared {
  readonly log: Log;
  readonly codec: Codec<DirectoryEntry>;
  readonly tail: Tail;
  /** Resolves when what a cut has taken is there again. */
  readonly isWhole: () => Promise<void>;
  readonly current: Directory;
  readonly predecessors: Predecessors;
  readonly repeats: Repeats;
  /** For each change in flight, the offsets of records read since that do not count. */
  readonly changesUnderWay: Set<Set<number>>;
  readonly waitMs: number;
}

async function change<K extends EntityKind, T>(
  shared: Shared,
  kind: K,
  id: string,
  decide: Decide<K, T>,
): Promise<T> {
  const { log, predecessors, repeats, changesUnderWay } = shared;
  const key = entityKey(kind, id);
  await readUpTo(shared, await log.endOffsets(TOPICS.directory));
  const lost = new Set<number>();
  changesUnderWay.add(lost);
  let isLeftBehind = false;
  try {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const { entity, answer } = decide(entityOf(shared.current, kind, id));
      if (entity === undefined) return answer;
      isLeftBehind = false;
      const headers = predecessors.headersFor(key);
      const offset = await append(shared, kind, id, { entity, headers });
      if (!lost.has(offset)) return answer;
      isLeftBehind = true;
    }
  } finally {
    changesUnderWay.delete(lost);
    if (isLeftBehind) await repeats.repeat(key);
  }
  throw new Unavailable(`the ${kind} is being changed by others all the time; nothing was changed`);
}

function entityOf<K extends EntityKind>(current: Directory, kind: K, id: string): Known<K> | undefined {
  const entities: { readonly [Kind in EntityKind]: ReadonlyMap<string, Known<Kind>> } = {
    tenant: current.tenants,
    project: current.projects,
    token: current.tokens,
    use: current.uses,
    secret: current.secrets,
    erasure: current.erasures,
  };
  return entities[kind].get(id);
}

/** Returns the record's offset once this process has read it back. */
async function append<K extends EntityKind>(
  shared: Shared,
  kind: K,
  id: string,
  { entity, headers }: { entity: Known<K> | null; headers: Headers },
): Promise<number> {
  const value = entity === null ? null : shared.codec.encode({ ...NOTHING, [kind]: entity });
  const records = [{ key: entityKey(kind, id), value, headers }];
  const { baseOffset } = await shared.log.append(TOPICS.directory, 0, records);
  await readUpTo(shared, [baseOffset + 1]);
  return baseOffset;
}

/** @throws Unavailable */
async function readUpTo({ tail, isWhole, waitMs }: Shared, offsets: readonly number[]): Promise<void> {
  const message = 'this process has not read yet what the log has; try again';
  await withinLimit(isWhole(), waitMs, () => {
    throw new Unavailable(message);
  });
  await waitForTail(tail, offsets, { limitMs: waitMs, message });
}
