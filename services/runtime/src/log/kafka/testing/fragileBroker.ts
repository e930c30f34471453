/** A real broker whose files a test may change under it: as after a power loss, a full disk, or a bit that turned. */
import { execFile } from 'node:child_process';
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import kafkajs from 'kafkajs';
import { until } from '../../contract/harness.ts';
import { patchRequestQueueTimer } from '../client/patches.ts';
import { brokerJars } from './brokerJars.ts';
import { at, clusterId, ended, freePorts, started } from './brokerProcess.ts';

export interface FragileBroker {
  /** `host:port`. */
  readonly address: string;
  /**
   * Kills it, takes the batches away that begin at the offset or behind it, and starts it again.
   * @param topic as the cluster names it.
   */
  cut(topic: string, partition: number, offset: number): Promise<void>;
  /** Turns a bit of the last byte of the partition, also back. */
  turnBit(topic: string, partition: number): void;
  stop(): Promise<void>;
}

/** Undefined with a line that says why, where this machine cannot. @throws where `QUESTLOG_REQUIRE` asks for kafka. */
export async function startFragileBroker(): Promise<FragileBroker | undefined> {
  const jars = await brokerJars();
  if ('lack' in jars) {
    if (/\bkafka\b/.test(process.env['QUESTLOG_REQUIRE'] ?? ''))
      throw new Error(`QUESTLOG_REQUIRE asks for kafka, but no broker can be started: ${jars.lack}`);
    console.log(`a broker whose files are changed: skipped: ${jars.lack}`);
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), 'questlog-fragile-'));
  const [port = 0, controller = 0] = await freePorts(2);
  const settings = join(folder, 'server.properties');
  writeFileSync(settings, settingsOf(folder, port, controller));
  const java = ['-XX:TieredStopAtLevel=1', '-cp', jars.classPath];
  const format = ['format', '--standalone', '-t', clusterId(), '-c', settings];
  await promisify(execFile)('java', [...java, '-Xmx128m', 'kafka.tools.StorageTool', ...format]);
  const output = join(folder, 'output.log');
  patchRequestQueueTimer();
  const start = async () => {
    const child = started([...java, '-Xmx384m', 'kafka.Kafka', settings], output);
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`the broker has ended: ${readFileSync(output, 'utf8')}`);
      return await isLeading(at(port));
    });
    return child;
  };
  let child = await start();
  const segment = (topic: string, partition: number) =>
    join(folder, 'log', `${topic}-${partition}`, `${'0'.repeat(20)}.log`);
  return {
    address: at(port),
    cut: async (topic, partition, offset) => {
      await ended(child);
      truncateSync(segment(topic, partition), beginOf(readFileSync(segment(topic, partition)), offset));
      child = await start();
    },
    turnBit: (topic, partition) => {
      const bytes = readFileSync(segment(topic, partition));
      const file = openSync(segment(topic, partition), 'r+');
      writeSync(file, Buffer.of((bytes.at(-1) ?? 0) ^ 1), 0, 1, bytes.length - 1);
      closeSync(file);
    },
    stop: async () => {
      await ended(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Where the first batch begins that is not before the offset. */
function beginOf(bytes: Buffer, offset: number): number {
  let begin = 0;
  while (begin < bytes.length && Number(bytes.readBigInt64BE(begin)) < offset) {
    begin += 12 + bytes.readInt32BE(begin + 8);
  }
  return begin;
}

/** Also of every topic, so that nobody waits for an election any more. */
async function isLeading(address: string): Promise<boolean> {
  const kafka = new kafkajs.Kafka({
    brokers: [address],
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { retries: 0 },
  });
  const admin = kafka.admin();
  try {
    await admin.connect();
    const { topics } = await admin.fetchTopicMetadata();
    return topics.every(({ partitions }) => partitions.every(({ leader }) => leader >= 0));
  } catch {
    return false;
  } finally {
    await admin.disconnect().catch(() => undefined);
  }
}

function settingsOf(folder: string, port: number, controller: number): string {
  const lines = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    listeners: `PLAIN://${at(port)},CONTROLLER://${at(controller)}`,
    'listener.security.protocol.map': 'PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAIN',
    'controller.quorum.bootstrap.servers': at(controller),
    // A killed broker may register again at once.
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
