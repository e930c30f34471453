/** Catalog of the embedded log: the topics and partitions from the file, and the end offsets that readers see. */
import { StartRefused } from '../../process/errors.ts';
import { checkRecords } from '../checkRecords.ts';
import type { NewRecord, TopicSpec } from '../log.ts';
import type { LogDatabase } from './database.ts';

export interface TopicState {
  spec: TopicSpec;
  readonly partitions: readonly PartitionState[];
}

export interface PartitionState {
  /** Id of the partition, which is unique in the file and below `MAX_PARTITIONS`. */
  readonly id: number;
  readonly topic: string;
  readonly number: number;
  startOffset: number;
  /** End offset of the durable records. Updated after each database commit. */
  endOffset: number;
  compactedOffset: number;
  /** Offsets of the truncations that happened since the file was opened, in the order of time. */
  readonly truncations: number[];
  readonly readers: Set<() => void>;
}

export interface CheckedAppend {
  readonly partition: PartitionState;
  readonly records: readonly NewRecord[];
  readonly bytes: number;
}

const ROW_OVERHEAD_BYTES = 32;

/** Row ids (`partition id * 2^40 + offset`) stay below 2^52, so that a double represents each row id exactly. */
export const MAX_PARTITIONS = 2 ** 12;
export const MAX_OFFSET = 2 ** 40;

export class TopicCatalog {
  readonly #database: LogDatabase;
  readonly #topics: Map<string, TopicState>;
  #nextPartitionId: number;

  constructor(database: LogDatabase) {
    this.#database = database;
    this.#topics = database.read(() => loadTopics(database));
    this.#nextPartitionId = 0;
    for (const topic of this.#topics.values()) this.#nextPartitionId += topic.partitions.length;
  }

  all(): Iterable<TopicState> {
    return this.#topics.values();
  }

  topic(name: string): TopicState {
    const topic = this.#topics.get(name);
    if (topic === undefined) throw new Error(`topic ${name} does not exist`);
    return topic;
  }

  partition(topic: string, number: number): PartitionState {
    const partition = this.topic(topic).partitions[number];
    if (partition === undefined) throw new Error(`${topic} has no partition ${number}`);
    return partition;
  }

  /** Checks an append and computes its size. @throws RecordTooLarge if a record exceeds the limit. */
  checkAppend(topic: string, number: number, records: readonly NewRecord[]): CheckedAppend {
    const partition = this.partition(topic, number);
    const { maxRecordBytes, cleanup } = this.topic(topic).spec;
    const isCompacted = cleanup.policy === 'compact';
    const sizes = checkRecords({ topic, maxRecordBytes, isCompacted }, records);
    return { partition, records, bytes: sizes.reduce((sum, bytes) => sum + bytes + ROW_OVERHEAD_BYTES, 0) };
  }

  /** Creates the missing topics in one transaction. Updates the limits and the retention of existing topics. */
  ensure(specs: readonly TopicSpec[]): void {
    for (const spec of specs) this.#check(spec);
    let nextPartitionId = this.#nextPartitionId;
    const created = new Map<string, TopicState>();
    for (const spec of specs) {
      if (this.#topics.has(spec.name) || created.has(spec.name)) continue;
      created.set(spec.name, newTopic(spec, nextPartitionId));
      nextPartitionId += spec.partitions;
    }
    if (nextPartitionId > MAX_PARTITIONS) {
      throw new StartRefused(
        `the embedded log supports at most ${MAX_PARTITIONS} partitions, not ${nextPartitionId}`,
      );
    }
    this.#database.write(() => saveTopics(this.#database, specs, created));
    this.#nextPartitionId = nextPartitionId;
    for (const [name, topic] of created) this.#topics.set(name, topic);
    for (const spec of specs) this.topic(spec.name).spec = spec;
  }

  #check(spec: TopicSpec): void {
    const existing = this.#topics.get(spec.name);
    if (existing !== undefined && existing.partitions.length !== spec.partitions) {
      throw new StartRefused(
        `topic ${spec.name} has ${existing.partitions.length} partitions, not ${spec.partitions}: the count never changes`,
      );
    }
    if (spec.name === '' || !Number.isInteger(spec.partitions) || spec.partitions < 1) {
      throw new Error(`invalid topic "${spec.name}" with ${spec.partitions} partitions`);
    }
  }
}

function loadTopics(database: LogDatabase): Map<string, TopicState> {
  const topics = new Map<string, TopicState>();
  const partitionsOf = database.sqlite.prepare('SELECT * FROM partitions WHERE topic = ? ORDER BY number');
  for (const row of database.sqlite.prepare('SELECT * FROM topics').all()) {
    const name = String(row['name']);
    const partitions = partitionsOf.all(name).map((partition) => ({
      id: Number(partition['id']),
      topic: name,
      number: Number(partition['number']),
      startOffset: Number(partition['start_offset']),
      endOffset: Number(partition['end_offset']),
      compactedOffset: Number(partition['compacted_offset']),
      truncations: [],
      readers: new Set<() => void>(),
    }));
    const cleanup: TopicSpec['cleanup'] =
      row['policy'] === 'compact'
        ? { policy: 'compact' }
        : { policy: 'delete', retentionMs: Number(row['retention_ms']) };
    const maxRecordBytes = Number(row['max_record_bytes']);
    topics.set(name, { spec: { name, partitions: partitions.length, cleanup, maxRecordBytes }, partitions });
  }
  return topics;
}

function newTopic(spec: TopicSpec, firstId: number): TopicState {
  const partitions = Array.from({ length: spec.partitions }, (_, number) => ({
    id: firstId + number,
    topic: spec.name,
    number,
    startOffset: 0,
    endOffset: 0,
    compactedOffset: 0,
    truncations: [],
    readers: new Set<() => void>(),
  }));
  return { spec, partitions };
}

function saveTopics(
  { sqlite }: LogDatabase,
  specs: readonly TopicSpec[],
  created: ReadonlyMap<string, TopicState>,
): void {
  const saveTopic = sqlite.prepare(
    'INSERT OR REPLACE INTO topics (name, policy, retention_ms, max_record_bytes) VALUES (?, ?, ?, ?)',
  );
  for (const { name, cleanup, maxRecordBytes } of specs) {
    const retentionMs = cleanup.policy === 'delete' ? cleanup.retentionMs : null;
    saveTopic.run(name, cleanup.policy, retentionMs, maxRecordBytes);
  }
  const savePartition = sqlite.prepare('INSERT INTO partitions VALUES (?, ?, ?, 0, 0, 0)');
  for (const topic of created.values()) {
    for (const { id, topic: name, number } of topic.partitions) savePartition.run(id, name, number);
  }
}
