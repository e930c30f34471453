/** Kills a linker on a real Kafka, with a changelog of the given size, and waits until another linker creates links. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { keyOf } from '@questlog/linker/core/decision';
import { LINKER_BOUNDS, LinkerState, positionEntry } from '@questlog/linker/core/linkerState';
import { openKafkaLog } from '@questlog/runtime/log/kafka/kafkaLog';
import { deleteTopics } from '@questlog/runtime/log/kafka/testing/deleteTopics';
import type { Log, NewRecord } from '@questlog/runtime/log/log';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { type Codec, createCodec } from '@questlog/runtime/registry/registry';
import { anEventsAccepted, aReportLink } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { type LinkerEntry, linkerState, NO_EPOCHS, POSITION_KEY } from '@questlog/schemas/topics/linkerState';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { eventually } from '../e2e/builders.ts';

export interface FailoverOptions {
  /** Bootstrap brokers, `host:port`, separated by commas. */
  readonly brokers: string;
  readonly partitions: number;
  /** Bytes of keys and values in all partitions. */
  readonly changelogBytes: number;
  /** Maximum time of a start and of a failover. */
  readonly withinMs: number;
}

const MEMBER = fileURLToPath(new URL('linkerMember.ts', import.meta.url));
const APPENDS_A_COMMIT = 20;
const MAX_BATCH_BYTES = 900_000;
const FILLED_AT_ONCE = 4;
/** Window of the reports, longer than any run. */
const DAY_MS = 24 * 60 * 60 * 1000;

/** @throws Error if a start or the failover takes too long, or if a link is missing or duplicated */
export async function failOver(options: FailoverOptions): Promise<void> {
  const { brokers, partitions, changelogBytes, withinMs } = options;
  await withLog(brokers, partitions, async (log, prefix) => {
    const registry = await openLogRegistry(log);
    const codecs = {
      events: await createCodec(registry, eventsAccepted),
      links: await createCodec(registry, linkedEvents),
      state: await createCodec(registry, linkerState),
    };
    const games = gamesOf(partitions);
    await fill(log, codecs.state, games, changelogBytes / partitions);
    const linkOnce = async (times: number): Promise<void> => {
      for (const [partition, { anAppend }] of games.entries()) {
        const value = codecs.events.encode(anAppend());
        await log.append(TOPICS.events, partition, [{ key: null, value }]);
      }
      await eventually(() => areLinked(log, times), Boolean, withinMs);
    };
    const members: ChildProcess[] = [];
    try {
      members.push(startMember(brokers, prefix));
      await linkOnce(1);
      for (const member of members.splice(0)) await end(member);
      members.push(startMember(brokers, prefix));
      await linkOnce(2);
      await verify(log, codecs.links, 2 * partitions);
    } finally {
      for (const member of members) await end(member);
    }
  });
}

/** Runs the work on a separate log, and closes the log. */
async function withLog<T>(
  brokers: string,
  partitions: number,
  use: (log: Log, prefix: string) => Promise<T>,
): Promise<T> {
  const prefix = `links-${randomUUID()}-`;
  const connection = { brokers: brokers.split(','), clientId: 'questlog-tests' };
  const log = await openKafkaLog({ connection, prefix, replicationFactor: -1, logger: silentLogger });
  try {
    await log.ensureTopics(topicDefinitions(partitions));
    return await use(log, prefix);
  } finally {
    await log.close();
    await deleteTopics(brokers, prefix);
  }
}

/** Returns one tenant per partition, with a session whose report waits for events. */
function gamesOf(partitions: number) {
  const byPartition = new Map<number, string>();
  while (byPartition.size < partitions) {
    const tenantId = randomUUID();
    byPartition.set(partitionOf(tenantId, 0, partitions), tenantId);
  }
  const nowMs = Date.now();
  return Array.from({ length: partitions }, (_, partition) => {
    const owner = { tenantId: byPartition.get(partition) ?? '', projectId: randomUUID() };
    const sessionId = randomUUID();
    const record = aReportLink({
      ...owner,
      sessionId,
      sessionLane: 0,
      receivedAt: nowMs,
      windowAfterMs: DAY_MS,
    });
    return {
      report: { record, offset: 0, phase: 'open', askAt: null, closesAt: nowMs * 2 } as const,
      anAppend: () => {
        const events = [{ sessionId, occurredAt: BigInt(Date.now()) * 1000n }];
        return anEventsAccepted({ ...owner, receivedAt: Date.now(), events });
      },
    };
  });
}

/** Writes the changelog of many commits; all partitions get the same entries, except for their reports. */
async function fill(
  log: Log,
  codec: Codec<LinkerEntry>,
  games: ReturnType<typeof gamesOf>,
  bytesAPartition: number,
): Promise<void> {
  const batches = [...commits(codec, bytesAPartition)];
  const partitions = [...games.entries()];
  const position = positionEntry({ events: 0, reportLinks: 0, ...NO_EPOCHS });
  const fillNext = async (): Promise<void> => {
    for (let next = partitions.shift(); next !== undefined; next = partitions.shift()) {
      const [partition, { report }] = next;
      for (const records of batches) await log.append(TOPICS.linkerState, partition, records);
      const entry = { ...position, position: null, report };
      await log.append(TOPICS.linkerState, partition, [
        { key: `report/${keyOf(report.record)}`, value: codec.encode(entry) },
        { key: POSITION_KEY, value: codec.encode(position) },
      ]);
    }
  };
  await Promise.all(Array.from({ length: FILLED_AT_ONCE }, fillNext));
}

function* commits(codec: Codec<LinkerEntry>, bytes: number): Generator<NewRecord[]> {
  const state = new LinkerState(0, 1, LINKER_BOUNDS);
  const sizeOf = ({ key, value }: NewRecord): number => (key?.length ?? 0) + (value?.length ?? 0);
  let [batch, batchBytes, written]: [NewRecord[], number, number] = [[], 0, 0];
  while (written < bytes) {
    for (let i = 0; i < APPENDS_A_COMMIT; i++) {
      state.evolve([{ entry: 'append', id: randomUUID(), arrivedAtMs: Date.now() }]);
    }
    for (const { key, entry } of state.drain()) {
      const record = { key, value: entry === null ? null : codec.encode(entry) };
      if (batchBytes + sizeOf(record) > MAX_BATCH_BYTES) {
        yield batch;
        [batch, batchBytes] = [[], 0];
      }
      batch.push(record);
      batchBytes += sizeOf(record);
      written += sizeOf(record);
    }
  }
  if (batch.length > 0) yield batch;
}

function startMember(brokers: string, prefix: string): ChildProcess {
  return spawn(process.execPath, [MEMBER, brokers, prefix], { stdio: 'inherit' });
}

async function end(member: ChildProcess): Promise<void> {
  const gone = once(member, 'exit');
  member.kill('SIGKILL');
  await gone;
}

async function areLinked(log: Log, times: number): Promise<boolean> {
  return (await log.committed(GROUPS.link, TOPICS.events)).every((commit) => (commit?.offset ?? 0) >= times);
}

/** @throws Error if a link is missing or duplicated. */
async function verify(log: Log, codec: Codec<{ linkId: string }>, expected: number): Promise<void> {
  const ids: string[] = [];
  const tail = await log.tail({
    topic: TOPICS.linkedEvents,
    from: 'earliest',
    onBatch: async ({ records }) => {
      for (const { value } of records) ids.push((await codec.decode(value)).linkId);
    },
  });
  await tail.waitForOffsets(await log.endOffsets(TOPICS.linkedEvents));
  await tail.close();
  if (ids.length !== expected || new Set(ids).size !== expected) {
    throw new Error(
      `${expected} links were to be made once: ${new Set(ids).size} were made, in ${ids.length} records`,
    );
  }
}
