/** What is remembered of a stack between commands: its nodes, their ports, and the processes that were started. */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts } from './freePorts.ts';
import type { OwnProcess } from './ownProcess.ts';

export interface BrokerNode {
  readonly kind: 'broker';
  readonly name: string;
  readonly id: number;
  readonly port: number;
  readonly controllerPort: number;
  /** The id that the folder is formatted with: the first voters of the quorum are named by it. */
  readonly directoryId: string;
  process?: OwnProcess;
}

export interface RegistryNode {
  readonly kind: 'registry';
  readonly name: string;
  readonly port: number;
  process?: OwnProcess;
}

export type Node = BrokerNode | RegistryNode;

export interface Stack {
  readonly clusterId: string;
  readonly brokers: readonly BrokerNode[];
  readonly registry: RegistryNode;
  isFormatted: boolean;
}

/** Everything that a cluster owns: to remove this folder is to begin anew. */
export function clusterFolder(folder: string): string {
  return join(folder, 'cluster');
}

export function nodesOf({ brokers, registry }: Stack): readonly Node[] {
  return [...brokers, registry];
}

/** The lines for `env`. */
export function environmentOf({ brokers, registry }: Stack): string {
  const addresses = brokers.map(({ port }) => `127.0.0.1:${port}`).join(',');
  return `KAFKA_BROKERS=${addresses}\nSCHEMA_REGISTRY_URL=${registryUrl(registry)}\n`;
}

/** Where the Confluent-compatible API of the registry is. */
export function registryUrl({ port }: RegistryNode): string {
  return `http://127.0.0.1:${port}/apis/ccompat/v7`;
}

export async function newStack(brokerCount: number): Promise<Stack> {
  const [registryPort = 0, ...ports] = await freePorts(1 + 2 * brokerCount);
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
  return { clusterId: kafkaUuid(), brokers, registry, isFormatted: false };
}

export function loadStack(folder: string): Stack | undefined {
  const path = statePath(folder);
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
}

/** Whole or not at all, so that a command that is interrupted loses no process. */
export function saveStack(folder: string, stack: Stack): void {
  const path = statePath(folder);
  mkdirSync(clusterFolder(folder), { recursive: true });
  writeFileSync(`${path}.new`, `${JSON.stringify(stack, null, 2)}\n`);
  renameSync(`${path}.new`, path);
}

function statePath(folder: string): string {
  return join(clusterFolder(folder), 'stack.json');
}

/** Kafka's form of 128 random bits. A leading dash would be read as an option of its command line. */
function kafkaUuid(): string {
  const id = randomBytes(16).toString('base64url');
  return id.startsWith('-') ? kafkaUuid() : id;
}
