/**
 * What the first record of an id in a topic has made (a session, a bug report). Memory holds what the projector has not
 * written yet (a tail of the topic from its committed offset) and what was asked for lately; everything else is in
 * ClickHouse. A look-up that finds nothing in memory takes the topic's end, reads memory up to there, and only then asks
 * ClickHouse: in this order nothing falls in between.
 *
 * If the log was cut, what this process had read there is forgotten, and what ClickHouse may not have of it is appended
 * again, as it was: it had been acknowledged. Should another record of an id be faster, that one counts.
 */
import { recordIdOf } from '@questlog/runtime/consumer/blocks';
import type { RecordIdentity } from '@questlog/runtime/consumer/findTruncation';
import type { Log, OffsetRange, Tail } from '@questlog/runtime/log/log';
import { waitForTail } from '@questlog/runtime/log/waitForTail';
import { Invalid, Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { Failure, retryUntilAvailable, withinLimit } from '@questlog/runtime/process/waiting';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { openTailDecoder, type TailDecoder } from '@questlog/runtime/registry/tailDecoder';
import { partitionOf } from '@questlog/schemas/partition';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import { type EntityRules, FirstRecordMemory, type MemoryBounds } from './firstRecordMemory.ts';
import { type Projection, READ_WAIT_MS } from './projection.ts';
import type { RestoredTable } from './restoredTable.ts';
import { Restorer } from './restorer.ts';

/** Ids are unique inside a project only. */
export interface EntityName {
  readonly tenantId: string;
  readonly projectId: string;
  readonly id: string;
}

/** How the records of a topic make entities; the topic's records lie at the home partition of their tenant. */
export interface FirstRecordKind<Message, Entity> extends EntityRules<Entity> {
  readonly contract: MessageContract<Message>;
  nameOf(message: Message): EntityName;
  /** What a record says of its entity; undefined where it says nothing here. */
  entityOf(message: Message, partition: number, partitions: number): Entity | undefined;
  lookUp(projectId: string, ids: readonly string[]): Promise<ReadonlyMap<string, Entity>>;
  /** Awaited when it is known where the tail begins, before it begins: ClickHouse then has all that lies ahead of it. */
  onStart?(): Promise<void>;
  /** Hears of each record of the tail, with all that is known of its entity. */
  onRecord?(message: Message, entity: Entity): void;
}

export interface FirstRecords<Message, Entity> {
  /**
   * The known ones of these entities of the project.
   * @throws Unavailable when ClickHouse is needed and silent, or this process lags behind the log; or one is unknown while
   *   ClickHouse's table was restored and is not what it was yet.
   */
  find(tenantId: string, projectId: string, ids: readonly string[]): Promise<ReadonlyMap<string, Entity>>;
  /** One of the project that memory has, whole. */
  get(projectId: string, id: string): Entity | undefined;
  /** Whether memory or ClickHouse still has one that was erased. @throws Unavailable where ClickHouse is silent. */
  holdsErased(projectId: string, id: string): Promise<boolean>;
  /**
   * Resolves once this process has read what the log has of the tenant now.
   * @throws Unavailable where it lags, or has not heard of a cut.
   */
  caughtUp(tenantId: string): Promise<void>;
  /**
   * Appends a record at the tenant's home and returns its offset, once this process has read it back.
   * @throws NotReadBack when that takes too long, or the log was cut meanwhile: the record is in the log.
   */
  append(message: Message): Promise<number>;
  /**
   * Appends a first record and returns what the log says the entity is: this one, or an earlier one.
   * @throws NotReadBack as `append`; Unavailable, with nothing appended, while memory is full of what ClickHouse lacks.
   */
  register(message: Message, entity: Entity): Promise<{ winner: Entity; isOwn: boolean }>;
  readonly failed: Promise<never>;
  /**
   * What ClickHouse's table lacks since it was restored: of what memory may have let go, of all partitions; with a tenant, of
   * anything of its home that was projected.
   */
  lacks(tenantId?: string): Promise<Unavailable | undefined>;
  close(): Promise<void>;
}

/** The record is in the log, and what it has made there is not known here yet. */
export class NotReadBack extends Unavailable {}

const LAGS = 'this process has not read yet what the log has; try again';
const OVERFULL =
  'ClickHouse lags so far behind the log that nothing new is registered for now; try again later';

export interface FirstRecordsDeps {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  /** Of the topic, by the group that writes it to ClickHouse. */
  readonly projection: Projection;
  readonly logger: Logger;
  /** ClickHouse's, which a backup may bring back with less in it. */
  readonly table?: RestoredTable;
  /** For how long a request waits until this process has read what the log has; `READ_WAIT_MS` unless given. */
  readonly waitMs?: number;
  readonly bounds?: MemoryBounds;
  /** Hears of each cut, and of the records that were appended again. */
  readonly onCut?: (cut: Cut) => void;
  readonly onAppendedAgain?: (topic: string, records: number) => void;
}

/** The log no longer holds what this process has read or appended from the offset on. */
export interface Cut {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

export async function openFirstRecords<Message, Entity>(
  deps: FirstRecordsDeps,
  kind: FirstRecordKind<Message, Entity>,
): Promise<FirstRecords<Message, Entity>> {
  const { log, logger } = deps;
  const limit = { limitMs: deps.waitMs ?? READ_WAIT_MS, message: LAGS };
  const { topic } = kind.contract;
  const codec = await createCodec(deps.registry, kind.contract);
  const decoder = openTailDecoder({ codec, logger, topic });
  const memory = new FirstRecordMemory<Entity>(kind, deps.bounds);
  const partitions = await log.partitionCount(topic);
  const restorer = new Restorer({ ...deps, onProjected: (ends) => memory.makeRoom(ends) }, topic);
  const tails = await openTails(deps, { kind, decoder, memory, restorer, partitions });
  const tailOf = (home: number): Promise<Tail> => withinLimit(tails.of(home), limit.limitMs, lags);
  const caughtUp = async (tenantId: string): Promise<void> => {
    const home = partitionOf(tenantId, 0, partitions);
    await withinLimit(restorer.restored(home), limit.limitMs, lags);
    const tail = await tailOf(home);
    const least = tail.positions()[home] ?? 0;
    await readUpTo(tail, { home, end: await log.endOffset(topic, home), least, ...limit });
  };
  const append = async (message: Message): Promise<number> => {
    const { tenantId } = kind.nameOf(message);
    const home = partitionOf(tenantId, 0, partitions);
    const tail = await tailOf(home);
    const least = (tail.positions()[home] ?? 0) + 1;
    const { baseOffset } = await log.append(topic, home, [{ key: tenantId, value: codec.encode(message) }]);
    await readUpTo(tail, { home, end: baseOffset + 1, least, ...limit }).catch((error: unknown) => {
      throw error instanceof Unavailable ? new NotReadBack(LAGS) : error;
    });
    return baseOffset;
  };
  const lacks = async (home?: number, least = 0): Promise<Unavailable | undefined> => {
    const below = memory.evictedBelow.map((end, one) => ((home ?? one) === one ? Math.max(end, least) : 0));
    return await deps.table?.lacks(below);
  };

  return {
    failed: tails.failed,
    close: () => {
      restorer.close();
      decoder.close();
      return tails.close();
    },
    get: (projectId, id) => memory.getWhole(projectId, id),
    holdsErased: (projectId, id) => holdsErased({ ...deps, memory }, kind, projectId, id),
    caughtUp,
    append,
    lacks: (tenantId) => (tenantId === undefined ? lacks() : lacks(partitionOf(tenantId, 0, partitions), 1)),
    find: async (tenantId, projectId, ids) => {
      const found = new Map<string, Entity>();
      if (memory.collect(projectId, ids, found).length === 0) return found;
      await caughtUp(tenantId);
      const missing = memory.collect(projectId, ids, found);
      if (missing.length === 0) return found;
      // Before the look-up: what is projected while it runs says nothing of it.
      const lacking = await lacks(partitionOf(tenantId, 0, partitions));
      for (const [id, entity] of await kind.lookUp(projectId, missing)) {
        if (!kind.isErased?.(projectId, entity)) found.set(id, memory.putStored(projectId, id, entity));
      }
      if (lacking !== undefined && missing.some((id) => !found.has(id))) throw lacking;
      return found;
    },
    register: async (message, entity) => {
      if (memory.isOverfull) memory.makeRoom(await deps.projection.projected());
      if (memory.isOverfull) throw new Unavailable(OVERFULL, { retryAfterS: 10 });
      const offset = await append(message);
      const { projectId, id } = kind.nameOf(message);
      const { entity: winner, firstOffset } = memory.get(projectId, id) ?? { entity, firstOffset: offset };
      return { winner, isOwn: firstOffset === offset };
    },
  };
}

/** Memory comes first: what leaves it, or was projected, is in ClickHouse, or was and is hidden. */
async function holdsErased<Entity>(
  { memory, projection }: Pick<FirstRecordsDeps, 'projection'> & { memory: FirstRecordMemory<Entity> },
  { lookUp, isErased }: Pick<FirstRecordKind<never, Entity>, 'lookUp' | 'isErased'>,
  projectId: string,
  id: string,
): Promise<boolean> {
  if (memory.hasErased(projectId, id)) memory.makeRoom(await projection.projected());
  if (memory.hasErased(projectId, id)) return true;
  const row = (await lookUp(projectId, [id])).get(id);
  return row !== undefined && isErased?.(projectId, row) === true;
}

interface ReadTo {
  readonly home: number;
  readonly end: number;
  /** Of a log that was not cut the end is no lower: the tail had been so far before the end was asked for. */
  readonly least: number;
  readonly limitMs: number;
  readonly message: string;
}

/** @throws Unavailable where the tail has not heard of a cut: what it has read is not what the log has. */
async function readUpTo(tail: Tail, { home, end, least, ...limit }: ReadTo): Promise<void> {
  if (end < least) lags();
  const ends = tail.positions().map((_, partition) => (partition === home ? end : 0));
  await waitForTail(tail, ends, limit);
}

function lags(): never {
  throw new Unavailable(LAGS);
}

interface Following<Message, Entity> {
  readonly kind: FirstRecordKind<Message, Entity>;
  readonly decoder: TailDecoder<Message>;
  readonly memory: FirstRecordMemory<Entity>;
  readonly restorer: Restorer;
  readonly partitions: number;
}

/** As of the start, also for the partitions that are followed later: what lies ahead was in ClickHouse at `onStart`. */
interface Projected {
  /** Per partition, the offset below which all was projected. */
  readonly projected: readonly number[];
  /** Per partition, the record that the projector's commit names, where it names one. */
  readonly last: readonly (RecordIdentity | undefined)[];
}

interface Tails {
  /** That of the partition, once there is one. */
  of(partition: number): Promise<Tail>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/**
 * Resolves once all is read of the partitions that have a leader now. Each of the others is followed once it has one, just
 * as at a start; until then only its tenants wait.
 */
async function openTails<Message, Entity>(
  deps: FirstRecordsDeps,
  to: Following<Message, Entity>,
): Promise<Tails> {
  const { topic } = to.kind.contract;
  const before = { projected: await deps.projection.projected(), last: await deps.projection.lastRecords() };
  to.memory.projected = before.projected;
  await to.kind.onStart?.();
  const closed = new AbortController();
  const failure = new Failure();
  const opened: Tail[] = [];
  const follow = async (wanted: readonly number[]) => {
    const followed = await followLed(deps, { ...to, before }, wanted);
    if (followed === undefined) return undefined;
    if (closed.signal.aborted) await followed.tail.close();
    followed.tail.failed.catch(failure.fail);
    opened.push(followed.tail);
    return followed;
  };
  const late = async (partition: number): Promise<Tail> => {
    const where = { topic, partition };
    const followed = async () => {
      const { tail } = (await follow([partition])) ?? {};
      if (tail === undefined) throw new Unavailable(`${topic}/${partition} has no leader`);
      return tail;
    };
    const tail = await retryUntilAvailable(followed, {
      signal: closed.signal,
      onDelay: ({ message }, backoffMs) =>
        deps.logger.warn('first_records_awaited', { ...where, backoffMs, cause: message }),
    });
    deps.logger.info('first_records_followed', where);
    return tail;
  };
  const all = Array.from({ length: to.partitions }, (_, partition) => partition);
  const first = await follow(all);
  const tails = all.map(async (one) => (first?.ends[one] === undefined ? await late(one) : first.tail));
  for (const tail of tails) {
    tail.catch((error) => {
      if (!closed.signal.aborted) failure.fail(error);
    });
  }
  await first?.tail.waitForOffsets(first.ends.map((end) => end ?? 0));
  return {
    of: (partition) => tails[partition] ?? Promise.reject(new Error(`${topic} has no ${partition}`)),
    failed: failure.failed,
    close: async () => {
      closed.abort();
      await Promise.all(opened.map((tail) => tail.close()));
    },
  };
}

/** @returns the ends, as of before, of the partitions that are followed; undefined where none that is wanted has a leader. */
async function followLed<Message, Entity>(
  { log, logger, onCut }: FirstRecordsDeps,
  to: Following<Message, Entity> & { readonly before: Projected },
  wanted: readonly number[],
): Promise<{ readonly tail: Tail; readonly ends: readonly (number | undefined)[] } | undefined> {
  const { kind, decoder, memory, restorer, partitions, before } = to;
  const { topic } = kind.contract;
  const all = await log.offsetRanges(topic);
  const ranges = all.map((range, partition) => (wanted.includes(partition) ? range : undefined));
  const led = wanted.filter((partition) => ranges[partition] !== undefined);
  if (led.length === 0) return undefined;
  const from = [...before.projected];
  for (const { partition, offset } of await cutsBefore(log, topic, ranges, before)) {
    // What the projector has written is no proof of what is in the log now.
    from[partition] = ranges[partition]?.startOffset ?? 0;
    memory.cut(partition, offset);
    onCut?.({ topic, partition, offset });
  }
  const tail = await log.tail({
    topic,
    from,
    partitions: led,
    onTruncated: (partition, offset) => {
      memory.cut(partition, offset);
      restorer.cut(partition, offset);
      onCut?.({ topic, partition, offset });
    },
    onBatch: async ({ partition, records }) => {
      for (const record of records) {
        const { offset } = record;
        try {
          const message = await decoder.decode(record, partition);
          // What says nothing here too: the linker's copies are for other linkers, and nobody else keeps them.
          restorer.read(partition, record);
          const entity = kind.entityOf(message, partition, partitions);
          if (entity === undefined) continue;
          const { projectId, id } = kind.nameOf(message);
          const known = memory.putRecord(projectId, id, { entity, partition, offset });
          kind.onRecord?.(message, known);
        } catch (error) {
          // The projector sends it to the dead letters; here it only says nothing.
          if (!(error instanceof Invalid)) throw error;
          logger.warn('first_record_skipped', { topic, partition, offset });
        }
      }
    },
  });
  return { tail, ends: ranges.map((range) => range?.endOffset) };
}

/**
 * Finds the cuts that came before this process did: the log does not hold the last records that were projected.
 *
 * @param ranges of the partitions that are looked at.
 * @returns the partitions, each with an offset from which on it is not what was projected. Where retention has removed the
 *   record, nothing tells.
 */
async function cutsBefore(
  log: Pick<Log, 'tail'>,
  topic: string,
  ranges: readonly (OffsetRange | undefined)[],
  { projected, last }: Projected,
): Promise<{ readonly partition: number; readonly offset: number }[]> {
  const found = new Map<number, number>();
  const unread = new Set<number>();
  ranges.forEach((range, partition) => {
    if (range === undefined) return;
    const { endOffset: end } = range;
    const offset = last[partition]?.offset;
    if ((projected[partition] ?? 0) > end) found.set(partition, end);
    else if (offset !== undefined && offset < end) unread.add(partition);
  });
  if (unread.size > 0) {
    const { promise: isRead, resolve } = Promise.withResolvers<void>();
    const read = (partition: number): void => {
      unread.delete(partition);
      if (unread.size === 0) resolve();
    };
    const tail = await log.tail({
      topic,
      from: ranges.map((_, partition) => last[partition]?.offset ?? 0),
      partitions: [...unread],
      onBatch: ({ partition, records, nextOffset }) => {
        const proof = last[partition];
        if (proof === undefined || nextOffset <= proof.offset) return;
        const record = records.find(({ offset }) => offset === proof.offset);
        if (record !== undefined && recordIdOf(record) !== proof.id) found.set(partition, proof.offset);
        read(partition);
      },
      onTruncated: (partition, offset) => {
        found.set(partition, offset);
        read(partition);
      },
    });
    // Retention may have removed it with all behind it: then nothing comes, and nothing tells.
    tail.positions().forEach((position, partition) => {
      if (unread.has(partition) && position > (last[partition]?.offset ?? -1)) read(partition);
    });
    await Promise.race([isRead, tail.failed]).finally(() => tail.close());
  }
  return [...found].map(([partition, offset]) => ({ partition, offset }));
}
