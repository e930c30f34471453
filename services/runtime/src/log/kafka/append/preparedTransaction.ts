/** Checks a transaction before anything of it is sent, and shapes it into the sends and offsets of kafkajs. */
import { checkCommitted, type OwnCommit, ownCommit } from '../../groupPartition.ts';
import type { NewRecord, Transaction } from '../../log.ts';
import { PartitionBuffer } from '../read/partitionBuffer.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import { batchRoom, checkedBytes } from './batchBytes.ts';
import type { Send } from './producers.ts';

export interface PreparedTransaction {
  /** The sends of each append, in order. An append has several only if it exceeds a batch. */
  readonly appends: readonly (readonly Send[])[];
  readonly offsets: readonly GroupOffsets[];
  /** @throws Fenced when a partition is another's by now. */
  checkOwned(): void;
}

/** kafkajs sends the metadata that its types leave out. */
export interface GroupOffsets {
  readonly consumerGroupId: string;
  readonly topics: { topic: string; partitions: { partition: number; offset: string; metadata: string }[] }[];
}

/** @throws RecordTooLarge when a record exceeds its topic's limit; anything else it throws is a bug of the caller. */
export async function preparedTransaction(
  deps: Pick<KafkaDeps, 'catalog' | 'nameOf'>,
  { appends, commits = [] }: Transaction,
): Promise<PreparedTransaction> {
  const prepared = await Promise.all(
    appends.map(async ({ topic, partition, records }) => {
      const limits = await deps.catalog.limits(topic);
      const bytes = checkedBytes(limits, partition, records);
      return sendsOf({ topic: deps.nameOf(topic), partition }, records, bytes, batchRoom(limits));
    }),
  );
  const moves = commits.map((commit) => ownCommit(commit, PartitionBuffer));
  return {
    appends: prepared,
    offsets: offsetsOf(moves, deps.nameOf),
    checkOwned: () => {
      for (const { owner } of moves) owner.checkOwned();
    },
  };
}

/** kafkajs's cost of a send grows with the square of its records: some 20 ms for so many. */
const MAX_SEND_RECORDS = 5000;

function sendsOf(
  target: Pick<Send, 'topic' | 'partition'>,
  records: readonly NewRecord[],
  bytes: readonly number[],
  room: number,
): Send[] {
  const sends: { topic: string; partition: number; records: NewRecord[]; bytes: number }[] = [];
  for (const [index, record] of records.entries()) {
    const recordBytes = bytes[index] ?? 0;
    let send = sends.at(-1);
    if (send === undefined || send.bytes + recordBytes > room || send.records.length >= MAX_SEND_RECORDS) {
      send = { ...target, records: [], bytes: 0 };
      sends.push(send);
    }
    send.records.push(record);
    send.bytes += recordBytes;
  }
  return sends;
}

function offsetsOf(
  moves: readonly OwnCommit<PartitionBuffer>[],
  nameOf: (name: string) => string,
): GroupOffsets[] {
  const groups = new Map<string, GroupOffsets>();
  for (const { owner, cursor, committed } of moves) {
    const { clusterTopic: topic, partition } = cursor;
    // The topic's end is not asked for: the linker commits what it has read.
    checkCommitted({ topic, partition, endOffset: Number.MAX_SAFE_INTEGER }, committed);
    const { offset, metadata } = committed;
    const group = nameOf(owner.group);
    const offsets = groups.get(group) ?? { consumerGroupId: group, topics: [] };
    offsets.topics.push({ topic, partitions: [{ partition, offset: String(offset), metadata }] });
    groups.set(group, offsets);
  }
  return [...groups.values()];
}
