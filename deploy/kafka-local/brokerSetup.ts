/** Creates the settings file, the data folder, and the command line of each Kafka broker. */
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { classArchive, type Jars, QUICK_START } from './jars.ts';
import { type BrokerNode, clusterFolder, type Stack } from './stackState.ts';

const LOGGING = fileURLToPath(new URL('./log4j2.xml', import.meta.url));

/** Writes the settings of every broker and formats its data folder. @throws an error with the message of Kafka. */
export async function formatBrokers(folder: string, stack: Stack, jars: Jars): Promise<void> {
  const voters = stack.brokers
    .map(({ id, controllerPort, directoryId }) => `${id}@127.0.0.1:${controllerPort}:${directoryId}`)
    .join(',');
  const formatted = stack.brokers.map((broker) => {
    mkdirSync(brokerFolder(folder, broker), { recursive: true });
    writeFileSync(settingsPath(folder, broker), settings(folder, stack, broker));
    const args = ['format', '-t', stack.clusterId, '--initial-controllers', voters];
    const options = [...javaOptions(jars, '128m'), 'kafka.tools.StorageTool', ...args];
    return promisify(execFile)(jars.java, [...options, '-c', settingsPath(folder, broker)]);
  });
  await Promise.all(formatted);
}

export function brokerArguments(folder: string, broker: BrokerNode, jars: Jars): string[] {
  return [...javaOptions(jars, '512m'), 'kafka.Kafka', settingsPath(folder, broker)];
}

function javaOptions(jars: Jars, maxHeap: string): string[] {
  const options = [...QUICK_START, `-XX:SharedArchiveFile=${classArchive(jars)}`, `-Xmx${maxHeap}`];
  return [...options, `-Dlog4j2.configurationFile=${LOGGING}`, '-cp', jars.kafka];
}

function settings(folder: string, { brokers }: Stack, { id, port, controllerPort, ...broker }: BrokerNode) {
  const replicas = brokers.length;
  const inSync = Math.min(2, replicas);
  const lines = {
    'process.roles': 'broker,controller',
    'node.id': id,
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}`,
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'controller.listener.names': 'CONTROLLER',
    'controller.quorum.bootstrap.servers': brokers
      .map((other) => `127.0.0.1:${other.controllerPort}`)
      .join(','),
    'log.dirs': join(clusterFolder(folder), broker.name, 'log'),
    'default.replication.factor': replicas,
    'min.insync.replicas': inSync,
    'offsets.topic.replication.factor': replicas,
    'transaction.state.log.replication.factor': replicas,
    'transaction.state.log.min.isr': inSync,
    'share.coordinator.state.topic.replication.factor': replicas,
    'share.coordinator.state.topic.min.isr': inSync,
    // Creates internal topics with 10 partitions. With Kafka's defaults, three brokers would recover 300 replicas after a
    // crash.
    'offsets.topic.num.partitions': 10,
    'transaction.state.log.num.partitions': 10,
    // Brokers without metadata changes write a record every five seconds. Kafka's default is every half second, which takes a
    // third of the CPU time of idle brokers.
    'metadata.max.idle.interval.ms': 5_000,
    // If Kafka created missing topics, the topics would not have the number of partitions and the settings that Questlog needs.
    'auto.create.topics.enable': false,
    // Starts a consumer group at once. With Kafka's default, the first consumer of a group waits three seconds for others.
    'group.initial.rebalance.delay.ms': 0,
  };
  return Object.entries(lines)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

function settingsPath(folder: string, broker: BrokerNode): string {
  return join(brokerFolder(folder, broker), 'server.properties');
}

function brokerFolder(folder: string, { name }: BrokerNode): string {
  return join(clusterFolder(folder), name);
}
