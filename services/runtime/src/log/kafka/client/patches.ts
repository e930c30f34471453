/**
 * Mends what kafkajs 2.2.4 makes of a partition without a leader: one of them fails the whole answer about topics, and a
 * producer that is made asks about every topic of the cluster. A dead broker that alone had a partition, of whomever,
 * would then stop every append. As in Kafka's own client only that partition is without a leader.
 */
import { createRequire } from 'node:module';

/** For the whole process, once. */
export function mendMissingLeaders(): void {
  for (const response of responses) {
    if (isMended.has(response)) continue;
    isMended.add(response);
    const { parse } = response;
    response.parse = (answer) => parse(withoutMissingLeaders(answer));
  }
}

/** Errors of a topic stay: it does not exist, is being made, or is not this client's to see. */
function withoutMissingLeaders(answer: MetadataAnswer): MetadataAnswer {
  const topicMetadata = answer.topicMetadata.map((topic) => ({
    ...topic,
    partitionMetadata: topic.partitionMetadata.map((partition) =>
      OF_THE_LEADER.includes(partition.partitionErrorCode)
        ? { ...partition, partitionErrorCode: NO_ERROR, leader: NO_LEADER }
        : partition,
    ),
  }));
  return { ...answer, topicMetadata };
}

/** Instead of a broker's id: in the protocol, and here. */
export const NO_LEADER = -1;
const NO_ERROR = 0;
/** LEADER_NOT_AVAILABLE, and LISTENER_NOT_FOUND: a leader without the listener that was asked. */
const OF_THE_LEADER: readonly number[] = [5, 72];

interface MetadataAnswer {
  readonly topicMetadata: readonly {
    readonly partitionMetadata: readonly { readonly partitionErrorCode: number; readonly leader: number }[];
  }[];
}

interface MetadataResponse {
  /** @throws the first error that the answer holds. */
  parse(answer: MetadataAnswer): Promise<MetadataAnswer>;
}

/** One a version of the protocol. Not part of the package's types; the dependency's version is exact. */
const responses: readonly MetadataResponse[] = [0, 1, 2, 3, 4, 5, 6].map((version) =>
  createRequire(import.meta.url)(`kafkajs/src/protocol/requests/metadata/v${version}/response`),
);

const isMended = new WeakSet<MetadataResponse>();
