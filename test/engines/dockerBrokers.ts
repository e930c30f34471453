/** Brokers in Docker: where each is to be found, inside and outside, and its settings as the image takes them. */
import { RandomPortGenerator } from 'testcontainers';

/** Of the listener for clients outside of the network of containers. */
export const OUTSIDE_PORT = 19_092;
const INSIDE_PORT = 9_092;
const CONTROLLER_PORT = 9_093;

export interface BrokerPlace {
  readonly id: number;
  /** Inside the network. */
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

/** Brokers tell clients where they are, so that their ports must be known before they start. */
export async function planBrokers(host: string, name: string, count: number): Promise<BrokerPlace[]> {
  const ports = new RandomPortGenerator();
  const brokers: BrokerPlace[] = [];
  for (let id = 1; id <= count; id++) {
    brokers.push({ id, name: `${name}-${id}`, host, port: await ports.generatePort() });
  }
  return brokers;
}

/** For clients. */
export function addressOf({ host, port }: BrokerPlace): string {
  return `${host}:${port}`;
}

/** Combined roles, as in the local stack. The image makes `a.b` out of `KAFKA_A_B`. */
export function brokerEnvironment(
  clusterId: string,
  broker: BrokerPlace,
  all: readonly BrokerPlace[],
): Record<string, string> {
  const replicas = String(all.length);
  const inSync = String(Math.min(2, all.length));
  return {
    CLUSTER_ID: clusterId,
    KAFKA_HEAP_OPTS: '-Xmx512m',
    KAFKA_NODE_ID: String(broker.id),
    KAFKA_PROCESS_ROLES: 'broker,controller',
    KAFKA_LISTENERS: `INSIDE://:${INSIDE_PORT},CONTROLLER://:${CONTROLLER_PORT},OUTSIDE://:${OUTSIDE_PORT}`,
    KAFKA_ADVERTISED_LISTENERS: `INSIDE://${broker.name}:${INSIDE_PORT},OUTSIDE://${addressOf(broker)}`,
    KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT,OUTSIDE:PLAINTEXT',
    KAFKA_INTER_BROKER_LISTENER_NAME: 'INSIDE',
    KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
    KAFKA_CONTROLLER_QUORUM_VOTERS: all.map(({ id, name }) => `${id}@${name}:${CONTROLLER_PORT}`).join(','),
    KAFKA_DEFAULT_REPLICATION_FACTOR: replicas,
    KAFKA_MIN_INSYNC_REPLICAS: inSync,
    KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: replicas,
    KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: replicas,
    KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: inSync,
    KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR: replicas,
    KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR: inSync,
    KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS: '10',
    KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS: '10',
    // A topic that came to be by being asked for would have neither Questlog's partitions nor its settings.
    KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
    // The first consumer of a group is not to wait for others that do not come.
    KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
  };
}
