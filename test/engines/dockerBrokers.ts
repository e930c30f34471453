/** Addresses and settings of brokers in Docker. */
import { RandomPortGenerator } from 'testcontainers';

/** Port of the listener for clients outside of the container network. */
export const OUTSIDE_PORT = 19_092;
const INSIDE_PORT = 9_092;
const CONTROLLER_PORT = 9_093;

export interface BrokerAddress {
  readonly id: number;
  /** Host name inside the container network. */
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

/** Chooses the ports before the start, because brokers advertise their addresses to clients. */
export async function planBrokers(host: string, name: string, count: number): Promise<BrokerAddress[]> {
  const ports = new RandomPortGenerator();
  const brokers: BrokerAddress[] = [];
  for (let id = 1; id <= count; id++) {
    brokers.push({ id, name: `${name}-${id}`, host, port: await ports.generatePort() });
  }
  return brokers;
}

/** Returns the address for clients. */
export function addressOf({ host, port }: BrokerAddress): string {
  return `${host}:${port}`;
}

/** Returns the settings of a broker with combined roles. The image converts `KAFKA_A_B` to the setting `a.b`. */
export function brokerEnvironment(
  clusterId: string,
  broker: BrokerAddress,
  all: readonly BrokerAddress[],
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
    // An automatically created topic would not have Questlog's partitions and settings.
    KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
    // The first consumer of a group does not wait for other consumers.
    KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
  };
}
