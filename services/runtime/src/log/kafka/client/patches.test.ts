/** A partition without a leader does not fail the metadata response. Other errors of a topic still fail the response. */
import { createRequire } from 'node:module';
import { beforeAll, expect, test } from 'vitest';
import { patchMissingLeaders } from './patches.ts';

beforeAll(patchMissingLeaders);

const VERSIONS = [0, 1, 2, 3, 4, 5, 6];
const LEADER_NOT_AVAILABLE = 5;
const LISTENER_NOT_FOUND = 72;

test.each(VERSIONS)('accepts a partition without a leader (metadata v%i)', async (version) => {
  const led = aPartition(0, 0, 3);
  const partitions = [led, aPartition(1, LEADER_NOT_AVAILABLE, -1), aPartition(2, LISTENER_NOT_FOUND, 2)];
  const answer = await parse(version, [aTopic(0, partitions)]);
  expect(answer.topicMetadata[0]?.partitionMetadata).toEqual([
    led,
    aPartition(1, 0, -1),
    aPartition(2, 0, -1),
  ]);
});

test.each<[name: string, code: number]>([
  ['UNKNOWN_TOPIC_OR_PARTITION', 3],
  ['LEADER_NOT_AVAILABLE', LEADER_NOT_AVAILABLE],
  ['TOPIC_AUTHORIZATION_FAILED', 29],
])('fails for a topic with the error %s', async (type, code) => {
  for (const version of VERSIONS) {
    const topics = [aTopic(0, [aPartition(0, 0, 1)]), aTopic(code, [])];
    await expect(parse(version, topics)).rejects.toMatchObject({ type });
  }
});

test('fails for other errors of a partition', async () => {
  const KAFKA_STORAGE_ERROR = 56;
  const answered = parse(6, [aTopic(0, [aPartition(0, KAFKA_STORAGE_ERROR, 1)])]);
  await expect(answered).rejects.toMatchObject({ type: 'KAFKA_STORAGE_ERROR' });
});

interface Topic {
  readonly topicErrorCode: number;
  readonly partitionMetadata: readonly ReturnType<typeof aPartition>[];
}

function aTopic(topicErrorCode: number, partitionMetadata: Topic['partitionMetadata']): Topic {
  return { topicErrorCode, partitionMetadata };
}

function aPartition(partitionId: number, partitionErrorCode: number, leader: number) {
  return { partitionId, partitionErrorCode, leader };
}

/** Parses a metadata response as a connection of kafkajs does. */
function parse(version: number, topicMetadata: readonly Topic[]): Promise<{ topicMetadata: Topic[] }> {
  const { protocol } = createRequire(import.meta.url)('kafkajs/src/protocol/requests/metadata');
  const request = protocol({ version })({ topics: ['t'], allowAutoTopicCreation: false });
  return request.response.parse({ topicMetadata });
}
