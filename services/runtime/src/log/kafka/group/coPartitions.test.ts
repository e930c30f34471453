/** Assignments of a group in Kafka's format. */
import { RECORDS_VERSION } from '@questlog/schemas/topics/topics';
import kafkajs from 'kafkajs';
import { expect, test } from 'vitest';
import { coPartitions, recordsVersionOf } from './coPartitions.ts';

const TOPICS = ['events', 'reports'];

test('assigns the same partitions of every topic to a member and leaves added partitions unassigned', async () => {
  // The configuration is empty, because the assigner does not use the cluster's metadata.
  const assigner = coPartitions(() => [], [0, 1, 2])(Object.create(null));
  const { metadata } = assigner.protocol({ topics: TOPICS });
  const members = ['a', 'b'].map((memberId) => ({ memberId, memberMetadata: metadata }));
  const assigned = await assigner.assign({ members, topics: TOPICS });
  const decoded = assigned.map(
    ({ memberAssignment }) => kafkajs.AssignerProtocol.MemberAssignment.decode(memberAssignment)?.assignment,
  );
  for (const each of decoded) expect(each?.['events']).toEqual(each?.['reports']);
  expect(decoded.flatMap((each) => each?.['events'] ?? []).toSorted()).toEqual([0, 1, 2]);
});

test('a member names the version of the records that it reads; a member of an older release names none', () => {
  const { metadata } = coPartitions(() => [2], [0, 1, 2])(Object.create(null)).protocol({ topics: TOPICS });
  expect(recordsVersionOf(metadata)).toBe(RECORDS_VERSION);
  const userData = Buffer.from(JSON.stringify({ owned: [2] }));
  const earlier = kafkajs.AssignerProtocol.MemberMetadata.encode({ version: 1, topics: TOPICS, userData });
  expect(recordsVersionOf(earlier)).toBe(0);
});
