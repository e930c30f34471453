/** Who of a group gets what, as the brokers are told. */
import kafkajs from 'kafkajs';
import { expect, test } from 'vitest';
import { coPartitions } from './coPartitions.ts';

const TOPICS = ['events', 'reports'];

test('every member’s topics have the same partitions, and those that somebody added are nobody’s', async () => {
  // What a cluster says of partitions does not matter.
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
