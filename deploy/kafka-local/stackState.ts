/** The state file of a stack, which contains the ports and the processes of the nodes. */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts } from './freePorts.ts';
import type { OwnProcess } from './ownProcess.ts';

export const CLICKHOUSE_USER = 'questlog';
/** Default name of the read-only account in the embedded ClickHouse. */
const CLICKHOUSE_READER = 'reader';
const CLICKHOUSE_DATABASE = 'questlog';
export const S3_ACCESS_KEY_ID = 'questlog';
export const S3_BUCKET = 'questlog-uploads';

export interface BrokerNode {
  readonly kind: 'broker';
  readonly name: string;
  readonly id: number;
  readonly port: number;
  readonly controllerPort: number;
  /** Id of the broker's log directory. A new Kafka cluster identifies the voters of its controller quorum by this id. */
  readonly directoryId: string;
  process?: OwnProcess;
}

export interface RegistryNode {
  readonly kind: 'registry';
  readonly name: string;
  readonly port: number;
  process?: OwnProcess;
}

export interface ClickHouseNode {
  readonly kind: 'clickhouse';
  readonly name: string;
  readonly port: number;
  readonly password: string;
  process?: OwnProcess;
}

export interface S3Node {
  readonly kind: 's3';
  readonly name: string;
  readonly port: number;
  readonly secret: string;
  readonly program: string;
  process?: OwnProcess;
}

export type Node = BrokerNode | RegistryNode | ClickHouseNode | S3Node;

export interface Stack {
  readonly clusterId: string;
  readonly brokers: readonly BrokerNode[];
  readonly registry: RegistryNode;
  /** The ClickHouse node. Undefined if an old version of `npm run stack` created the stack. The next `up` adds ClickHouse. */
  clickhouse?: ClickHouseNode;
  /** The S3 server. Undefined until the user requests an S3 server with `up`. */
  s3?: S3Node;
  isFormatted: boolean;
}

/** Returns the folder that contains all data of the nodes. If the folder is deleted, the stack starts without data. */
export function clusterFolder(folder: string): string {
  return join(folder, 'cluster');
}

export function nodesOf({ brokers, registry, clickhouse, s3 }: Stack): readonly Node[] {
  return [...brokers, registry, clickhouse, s3].filter((node) => node !== undefined);
}

/** Returns the environment variables with which Questlog connects to the stack, one per line. */
export function environmentOf({ brokers, registry, clickhouse, s3 }: Stack): string {
  const addresses = brokers.map(({ port }) => `127.0.0.1:${port}`).join(',');
  const lines = [`KAFKA_BROKERS=${addresses}\n`, `SCHEMA_REGISTRY_URL=${registryUrl(registry)}\n`];
  if (clickhouse !== undefined) {
    lines.push(`CLICKHOUSE_URL=${clickhouseUrl(clickhouse)}\n`);
    lines.push(
      `CLICKHOUSE_READER_URL=http://${CLICKHOUSE_READER}:${clickhouse.password}@127.0.0.1:${clickhouse.port}\n`,
    );
  }
  if (s3 !== undefined) {
    lines.push(`QUESTLOG_S3_ENDPOINT=http://127.0.0.1:${s3.port}\n`, `QUESTLOG_S3_BUCKET=${S3_BUCKET}\n`);
    lines.push(`QUESTLOG_S3_ACCESS_KEY_ID=${S3_ACCESS_KEY_ID}\nQUESTLOG_S3_SECRET_ACCESS_KEY=${s3.secret}\n`);
  }
  return lines.join('');
}

export function registryUrl({ port }: RegistryNode): string {
  return `http://127.0.0.1:${port}/apis/ccompat/v7`;
}

function clickhouseUrl({ port, password }: ClickHouseNode): string {
  return `http://${CLICKHOUSE_USER}:${password}@127.0.0.1:${port}/${CLICKHOUSE_DATABASE}`;
}

export async function newStack(brokerCount: number): Promise<Stack> {
  const [registryPort = 0, clickhousePort = 0, ...ports] = await freePorts(2 + 2 * brokerCount);
  const brokers = Array.from({ length: brokerCount }, (_, i): BrokerNode => {
    const [port = 0, controllerPort = 0] = ports.slice(2 * i);
    return {
      kind: 'broker',
      name: `broker-${i + 1}`,
      id: i + 1,
      port,
      controllerPort,
      directoryId: kafkaUuid(),
    };
  });
  const registry: RegistryNode = { kind: 'registry', name: 'registry', port: registryPort };
  const clickhouse = newClickHouse(clickhousePort);
  return { clusterId: kafkaUuid(), brokers, registry, clickhouse, isFormatted: false };
}

export function newClickHouse(port: number): ClickHouseNode {
  const password = randomBytes(24).toString('base64url');
  return { kind: 'clickhouse', name: 'clickhouse', port, password };
}

export function newS3(port: number, program: string): S3Node {
  return { kind: 's3', name: 's3', port, secret: randomBytes(24).toString('base64url'), program };
}

export function loadStack(folder: string): Stack | undefined {
  const path = statePath(folder);
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
}

/** Replaces the state file atomically. Only the owner can read the file, because it contains a password. */
export function saveStack(folder: string, stack: Stack): void {
  const path = statePath(folder);
  mkdirSync(clusterFolder(folder), { recursive: true });
  writeFileSync(`${path}.new`, `${JSON.stringify(stack, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

function statePath(folder: string): string {
  return join(clusterFolder(folder), 'stack.json');
}

/**
 * Returns 128 random bits in Kafka's format. The id never starts with a dash, because Kafka's commands would treat it as an
 * option.
 */
function kafkaUuid(): string {
  const id = randomBytes(16).toString('base64url');
  return id.startsWith('-') ? kafkaUuid() : id;
}
