/**
 * Which sessions exist. Memory holds what the projector has not written yet (a tail of the topic from its committed
 * offset) and what was asked for lately; everything else is in ClickHouse. A look-up that finds nothing in memory takes
 * the topic's end, reads memory up to there, and only then asks ClickHouse: in this order nothing falls in between.
 */
import type { Log, Tail } from '@questlog/runtime/log/log';
import { Invalid } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { type Codec, createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import type { Store } from '@questlog/runtime/store/store';
import { partitionOf } from '@questlog/schemas/partition';
import { type SessionRegistered, sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Projection } from './projection.ts';
import { coalescedSessionLookup } from './sessionLookup.ts';

export interface Sessions {
  /** The known ones of these sessions of the project. @throws Unavailable when ClickHouse is needed and silent. */
  find(
    tenantId: string,
    projectId: string,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, SessionRegistered>>;
  /** Appends a registration and returns what the log says the session is: this one, or an earlier one. */
  register(session: SessionRegistered): Promise<{ winner: SessionRegistered; isOwn: boolean }>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

interface Entry {
  readonly session: SessionRegistered;
  readonly partition: number;
  /** -1: read from ClickHouse. */
  readonly offset: number;
}

/** About 600 bytes each. Entries that are not in ClickHouse yet stay beyond it. */
const MAX_ENTRIES = 100_000;
/** How many of the oldest entries one insertion looks at when there are too many. */
const EVICTION_STEPS = 8;

export async function openSessions(deps: {
  log: Log;
  store: Store;
  registry: SchemaRegistry;
  projection: Projection;
  logger: Logger;
}): Promise<Sessions> {
  const { log, store, projection, logger } = deps;
  const codec = await createCodec(deps.registry, sessionRegistered);
  const memory = new SessionMemory();
  const lookUp = coalescedSessionLookup(store);
  const tail = await followSessions({ log, codec, memory, projection, logger });
  await tail.reached(await log.endOffsets(TOPICS.sessions));

  const upToNow = async (tenantId: string): Promise<void> => {
    const ends = await log.endOffsets(TOPICS.sessions);
    const home = partitionOf(tenantId, 0, ends.length);
    if ((tail.positions()[home] ?? 0) >= (ends[home] ?? 0)) return;
    await tail.reached(ends.map((end, partition) => (partition === home ? end : 0)));
  };

  return {
    failed: tail.failed,
    close: () => tail.close(),
    find: async (tenantId, projectId, ids) => {
      const found = new Map<string, SessionRegistered>();
      if (memory.collect(projectId, ids, found).length === 0) return found;
      await upToNow(tenantId);
      const missing = memory.collect(projectId, ids, found);
      if (missing.length === 0) return found;
      for (const session of await lookUp(projectId, missing)) {
        memory.put({ session, partition: 0, offset: -1 });
        found.set(session.sessionId, session);
      }
      return found;
    },
    register: async (session) => {
      const partitions = (await log.endOffsets(TOPICS.sessions)).length;
      const partition = partitionOf(session.tenantId, 0, partitions);
      const records = [{ key: session.tenantId, value: codec.encode(session) }];
      const { baseOffset } = await log.append(TOPICS.sessions, partition, records);
      await tail.reached(
        Array.from({ length: partitions }, (_, p) => (p === partition ? baseOffset + 1 : 0)),
      );
      const winner = memory.get(session.projectId, session.sessionId);
      return {
        winner: winner?.session ?? session,
        isOwn: winner === undefined || winner.offset === baseOffset,
      };
    },
  };
}

async function followSessions(deps: {
  log: Log;
  codec: Codec<SessionRegistered>;
  memory: SessionMemory;
  projection: Projection;
  logger: Logger;
}): Promise<Tail> {
  const { log, codec, memory, projection, logger } = deps;
  return await log.tail({
    topic: TOPICS.sessions,
    from: await projection.projected(),
    onBatch: async (batch) => {
      if (memory.isFull) memory.projected = await projection.projected();
      for (const record of batch.records) {
        try {
          const session = await codec.decode(record.value);
          memory.put({ session, partition: batch.partition, offset: record.offset });
        } catch (error) {
          // The projector sends it to the dead letters; here it is only not a session.
          if (!(error instanceof Invalid)) throw error;
          logger.warn('session_record_skipped', {
            topic: batch.topic,
            partition: batch.partition,
            offset: record.offset,
          });
        }
      }
    },
  });
}

/** Sessions by project and id, the least recently used first; the first record of an id wins. */
class SessionMemory {
  /** Per partition, what ClickHouse has: entries below may leave. */
  projected: readonly number[] = [];
  readonly #entries = new Map<string, Entry>();

  get isFull(): boolean {
    return this.#entries.size >= MAX_ENTRIES;
  }

  get(projectId: string, id: string): Entry | undefined {
    return this.#entries.get(`${projectId}/${id}`);
  }

  /** Adds those that are here to `found` and returns the others. */
  collect(projectId: string, ids: readonly string[], found: Map<string, SessionRegistered>): string[] {
    return ids.filter((id) => {
      if (found.has(id)) return false;
      const name = `${projectId}/${id}`;
      const entry = this.#entries.get(name);
      if (entry === undefined) return true;
      if (this.#entries.size > MAX_ENTRIES / 2) {
        this.#entries.delete(name);
        this.#entries.set(name, entry);
      }
      found.set(id, entry.session);
      return false;
    });
  }

  put(entry: Entry): void {
    const name = `${entry.session.projectId}/${entry.session.sessionId}`;
    if (this.#entries.has(name)) return;
    this.#entries.set(name, entry);
    if (this.#entries.size > MAX_ENTRIES) this.#evict();
  }

  #evict(): void {
    let steps = EVICTION_STEPS;
    for (const [name, { partition, offset }] of this.#entries) {
      if (this.#entries.size <= MAX_ENTRIES || steps-- === 0) return;
      if (offset < (this.projected[partition] ?? 0)) this.#entries.delete(name);
    }
  }
}
