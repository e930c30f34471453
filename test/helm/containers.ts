/** Runs a container of the chart as a process: the command of the image, the environment variables, the user, and a read-only disk. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClusterEngines } from '../e2e/cluster.ts';
import { confined } from '../e2e/confined.ts';
import { collectOutput, type Output } from '../e2e/product.ts';
import { ROOT } from '../tidy/projectFiles.ts';
import type { KubernetesObject } from './render.ts';

/** A running container. */
export interface Pod {
  readonly child: ChildProcess;
  readonly output: Output;
}

/** Returns the values of the chart for the engines. @param name database, and prefix of the topics, groups, and subjects */
export function valuesOf({ brokers, registryUrl, clickhouseUrl, s3 }: ClusterEngines, name: string): object {
  return {
    listenHost: '127.0.0.1',
    prefix: `${name}.`,
    partitions: 4,
    kafka: { brokers: brokers.split(','), replicationFactor: 1 },
    schemaRegistry: { url: registryUrl },
    clickhouse: {
      ...{ url: new URL(clickhouseUrl).origin, database: name, existingSecret: 'clickhouse' },
      reader: { existingSecret: 'reader' },
    },
    adminToken: { existingSecret: 'admin' },
    ...(s3 && { uploads: { store: 's3', bucket: s3.bucket, endpoint: s3.endpoint, existingSecret: 's3' } }),
  };
}

/** Values of the keys of each Secret. */
export type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Returns the Secrets that `valuesOf` names. */
export function secretsOf({ clickhouseUrl, s3 }: ClusterEngines): Secrets {
  const { username, password, origin } = new URL(clickhouseUrl);
  return {
    clickhouse: { username: decodeURIComponent(username), password: decodeURIComponent(password) },
    reader: { url: origin.replace('://', `://reader:${password}@`) },
    admin: { 'admin-token': 'qla_of_the_tests_of_the_chart' },
    s3: { 'access-key-id': s3?.accessKeyId ?? '', 'secret-access-key': s3?.secretAccessKey ?? '' },
  };
}

const DOCKERFILE = readFileSync(join(ROOT, 'deploy/Dockerfile'), 'utf8');
const [, ...ENTRY]: string[] = JSON.parse(
  /^ENTRYPOINT (?<command>.*)$/m.exec(DOCKERFILE)?.groups?.['command'] ?? '[]',
);
const IMAGE_ENV = Object.fromEntries(
  [...DOCKERFILE.matchAll(/^ENV (?<pairs>.*)$/gm)].flatMap(({ groups }) =>
    (groups?.['pairs'] ?? '').split(' ').map((pair) => pair.split('=')),
  ),
);

export interface RunOptions {
  readonly user: number;
  readonly secrets: Secrets;
  /** The only folder that the process can write to. */
  readonly folder: string;
  /** Variables that replace variables of the container, because all processes share one network here. */
  readonly env?: Readonly<Record<string, string>>;
  /** Folder with the sources of the image. By default, this checkout. */
  readonly root?: string;
}

/** Starts the container. The caller ends the process. */
export function runContainer(
  container: KubernetesObject,
  { user, secrets, folder, env = {}, root = ROOT }: RunOptions,
): Pod {
  const given = container.env.map(({ name, value, valueFrom }: KubernetesObject) => {
    const from = valueFrom?.secretKeyRef;
    return [name, from === undefined ? value : secrets[from.name]?.[from.key]];
  });
  const own = { PATH: process.env['PATH'], HOME: '/', TMPDIR: folder };
  const command = confined(folder, user, [process.execPath, ...ENTRY, ...container.args]);
  const child = spawn('unshare', command, {
    cwd: root,
    env: { ...own, ...IMAGE_ENV, ...Object.fromEntries(given), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return { child, output: collectOutput(child) };
}

export function preStopSeconds({ lifecycle }: KubernetesObject): number {
  return lifecycle?.preStop.sleep.seconds ?? 0;
}
