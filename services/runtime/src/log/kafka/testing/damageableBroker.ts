/** A real broker whose files a test can change. The changes simulate a power loss, a full disk, or a flipped bit. */
import { type ChildProcess, execFile } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import kafkajs, { type Admin, type Kafka } from 'kafkajs';
import { failIfRequired } from '../../../process/testing/required.ts';
import { until } from '../../contract/harness.ts';
import { patchRequestQueueTimer } from '../client/patches.ts';
import { type BrokerJars, brokerJars } from './brokerJars.ts';
import { clusterId, endProcess, freePorts, localAddress, startProcess } from './brokerProcess.ts';
import { segmentsOf, truncateSegments } from './truncateSegments.ts';

export interface DamageableBroker {
  /** Addresses of all brokers as `host:port`, separated by commas. */
  readonly address: string;
  /** Moves all partitions of a topic to the damageable broker, if there is a second broker. */
  takeOver(topic: string): Promise<void>;
  /**
   * Kills the broker, deletes the batches from the offset on, and restarts the broker.
   * @param topic the topic name with the prefix.
   * @param whileDown called before the restart.
   */
  truncate(
    topic: string,
    partition: number,
    offset: number,
    whileDown?: () => Promise<unknown>,
  ): Promise<void>;
  /** Changes the retention time of a topic, and resets the topic's other settings. */
  setRetention(topic: string, retentionMs: number): Promise<void>;
  /** Flips a bit of the partition's last byte. A second call restores the bit. */
  flipBit(topic: string, partition: number): void;
  stop(): Promise<void>;
}

/**
 * Starts the broker. If the broker cannot be started, prints the reason and returns undefined.
 * @param hasSecondBroker true to add a broker that is never damaged. It has the metadata, groups, and transactions, so that
 *   group members keep their partitions.
 * @throws Error if the broker cannot be started and `QUESTLOG_REQUIRE` contains kafka.
 */
export async function startDamageableBroker({
  hasSecondBroker = false,
} = {}): Promise<DamageableBroker | undefined> {
  const jars = await brokerJars();
  if ('lack' in jars) {
    failIfRequired('kafka', `no broker can be started: ${jars.lack}`);
    console.log(`a broker whose files are changed: skipped: ${jars.lack}`);
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), 'questlog-fragile-'));
  const [port = 0, controller = 0, another = 0] = await freePorts(3);
  const kafka = { jars, cluster: clusterId(), controller: localAddress(controller) };
  patchRequestQueueTimer();
  const first = new Node({ ...kafka, id: 1, folder: join(folder, '1'), address: localAddress(port) });
  await first.start([localAddress(port)]);
  const nodes = [first];
  if (hasSecondBroker) {
    await withAdmin(localAddress(port), createInternalTopics);
    const second = new Node({ ...kafka, id: 2, folder: join(folder, '2'), address: localAddress(another) });
    await second.start([localAddress(port), localAddress(another)]);
    nodes.push(second);
  }
  const addresses = nodes.map(({ address }) => address);
  const damageable = nodes.at(-1) ?? first;
  const { logFolder } = damageable;
  return {
    address: addresses.join(','),
    takeOver: (topic) => withAdmin(first.address, (admin) => moveTo(admin, topic, damageable.id)),
    truncate: async (topic, partition, offset, whileDown) => {
      await damageable.kill();
      await whileDown?.();
      truncateSegments({ logFolder, topic, partition }, offset);
      await damageable.start(addresses);
    },
    setRetention: (name, retentionMs) =>
      withAdmin(first.address, async (admin) => {
        const configEntries = [{ name: 'retention.ms', value: String(retentionMs) }];
        const type = kafkajs.ConfigResourceTypes.TOPIC;
        await admin.alterConfigs({ validateOnly: false, resources: [{ type, name, configEntries }] });
      }),
    flipBit: (topic, partition) => {
      const { path = '' } = segmentsOf(join(logFolder, `${topic}-${partition}`)).at(-1) ?? {};
      const bytes = readFileSync(path);
      const file = openSync(path, 'r+');
      writeSync(file, Buffer.of((bytes.at(-1) ?? 0) ^ 1), 0, 1, bytes.length - 1);
      closeSync(file);
    },
    stop: async () => {
      await Promise.all(nodes.map((node) => node.kill()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

interface NodeSettings {
  readonly jars: BrokerJars;
  readonly cluster: string;
  readonly id: number;
  readonly folder: string;
  readonly address: string;
  /** Address of the controller. The first broker is the controller. */
  readonly controller: string;
}

class Node {
  readonly id: number;
  readonly address: string;
  readonly logFolder: string;
  readonly #settings: NodeSettings;
  #child: ChildProcess | undefined;

  constructor(settings: NodeSettings) {
    this.id = settings.id;
    this.address = settings.address;
    this.logFolder = join(settings.folder, 'log');
    this.#settings = settings;
  }

  /**
   * Starts the broker. Formats the folder at the first start.
   * @param all all brokers that run after the start.
   */
  async start(all: readonly string[]): Promise<void> {
    const { jars, cluster, folder, id } = this.#settings;
    const settings = join(folder, 'server.properties');
    const java = [...jars.quickStart, '-cp', jars.classPath];
    if (!existsSync(folder)) {
      mkdirSync(folder);
      writeFileSync(settings, settingsOf(this.#settings));
      const quorum = id === 1 ? '--standalone' : '--no-initial-controllers';
      const format = ['format', quorum, '-t', cluster, '-c', settings];
      await promisify(execFile)('java', [...java, '-Xmx128m', 'kafka.tools.StorageTool', ...format]);
    }
    const output = join(folder, 'output.log');
    const child = startProcess([...java, '-Xmx384m', 'kafka.Kafka', settings], output);
    this.#child = child;
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`the broker has ended: ${readFileSync(output, 'utf8')}`);
      return await withAdmin(this.address, (admin) => isLeading(admin, all)).catch(() => false);
    });
  }

  async kill(): Promise<void> {
    if (this.#child !== undefined) await endProcess(this.#child);
  }
}

/** Returns true if all topics have their leaders, so that no test has to wait for an election. */
async function isLeading(admin: Admin, all: readonly string[]): Promise<boolean> {
  const { brokers } = await admin.describeCluster();
  const { topics } = await admin.fetchTopicMetadata();
  return (
    brokers.length === all.length &&
    topics.every(({ partitions }) => partitions.every(({ leader }) => leader >= 0))
  );
}

/** Creates the topics of groups and transactions. Only one broker runs at this time, so the topics are on this broker. */
async function createInternalTopics(admin: Admin): Promise<void> {
  const topics = ['__consumer_offsets', '__transaction_state'].map((topic) => ({
    topic,
    numPartitions: 1,
    replicationFactor: 1,
    configEntries: [{ name: 'cleanup.policy', value: 'compact' }],
  }));
  await admin.createTopics({ topics, waitForLeaders: false });
}

async function moveTo(admin: Admin, topic: string, id: number): Promise<void> {
  const partitions = async () =>
    (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0]?.partitions ?? [];
  const partitionAssignment = (await partitions()).map(({ partitionId }) => ({
    partition: partitionId,
    replicas: [id],
  }));
  await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment }] });
  await until(async () =>
    (await partitions()).every(({ leader, replicas }) => leader === id && replicas.length === 1),
  );
}

function clientOf(address: string): Kafka {
  return new kafkajs.Kafka({
    brokers: [address],
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { retries: 0 },
  });
}

async function withAdmin<T>(address: string, use: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = clientOf(address).admin();
  try {
    await admin.connect();
    return await use(admin);
  } finally {
    await admin.disconnect().catch(() => undefined);
  }
}

function settingsOf({ id, folder, address, controller }: NodeSettings): string {
  const isController = id === 1;
  const lines = {
    'process.roles': isController ? 'broker,controller' : 'broker',
    'node.id': id,
    listeners: `PLAIN://${address}${isController ? `,CONTROLLER://${controller}` : ''}`,
    'listener.security.protocol.map': 'PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAIN',
    'controller.quorum.bootstrap.servers': controller,
    // With a short session, a killed broker can register again immediately.
    'broker.session.timeout.ms': 2000,
    'broker.heartbeat.interval.ms': 500,
    'log.dirs': join(folder, 'log'),
    'offsets.topic.replication.factor': 1,
    'offsets.topic.num.partitions': 1,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'transaction.state.log.num.partitions': 1,
    'share.coordinator.state.topic.replication.factor': 1,
    'share.coordinator.state.topic.min.isr': 1,
    'auto.create.topics.enable': false,
    'group.initial.rebalance.delay.ms': 0,
  };
  return Object.entries(lines)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}
