/** Starts the engines of a run without Docker, with the commands of `npm run stack`. */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Part } from './choice.ts';
import { type StartedEngines, s3In } from './startedEngines.ts';

const STACK = fileURLToPath(new URL('../../deploy/kafka-local/stack.ts', import.meta.url));

/** Kept between runs, so that only the first run downloads the jars. */
export const JARS = fileURLToPath(new URL('../../node_modules/.cache/questlog-jars', import.meta.url));

/** Returns true if the jars are downloaded, so that the stack needs no Maven. The stack itself checks their versions. */
export function hasJars(): boolean {
  return existsSync(join(JARS, 'pom.xml'));
}

/** Starts a stack. @throws Error with the output of the stack, which is removed then. */
export async function startLocalEngines(parts: readonly Part[]): Promise<StartedEngines> {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-stacks-'));
  const main = join(folder, 'main');
  const stop = async (): Promise<void> => {
    await stack(main, 'down');
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const hasBrokers = parts.includes('KAFKA_BROKERS');
    const started = await up(main, hasBrokers ? 3 : 1, parts);
    return hasBrokers ? { ...started, stackDir: main, stop } : { ...started, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Starts a stack and stops the nodes that are not needed, to save memory. */
async function up(
  dataDir: string,
  brokers: 1 | 3,
  parts: readonly Part[],
): Promise<Pick<StartedEngines, 'addresses' | 's3'>> {
  const hasGo = spawnSync('go', ['version']).status === 0;
  if (!hasGo)
    process.stderr.write(
      'kafka tests: S3 tests are skipped and uploads are stored in a folder, because Go, which builds the S3 server, is missing\n',
    );
  const lines = await stack(dataDir, 'up', '--brokers', String(brokers), ...(hasGo ? ['--s3'] : []));
  const status = await stack(dataDir, 'status');
  const names = status.split('\n').flatMap((line) => line.split(' ')[0] || []);
  const idle = names.filter((name) => name !== 's3' && !parts.includes(partOf(name)));
  if (idle.length > 0) await stack(dataDir, 'kill', ...idle);
  const addresses = Object.fromEntries(parts.map((part) => [part, addressIn(lines, part)]));
  return hasGo
    ? { addresses, s3: s3In(Object.fromEntries(lines.split('\n').map((line) => line.split('=', 2)))) }
    : { addresses };
}

function partOf(node: string): Part {
  if (node === 'registry') return 'SCHEMA_REGISTRY_URL';
  return node === 'clickhouse' ? 'CLICKHOUSE_URL' : 'KAFKA_BROKERS';
}

function addressIn(lines: string, part: Part): string {
  const line = lines.split('\n').find((one) => one.startsWith(`${part}=`));
  if (line === undefined) throw new Error(`the stack did not print ${part}, only: ${lines}`);
  return line.slice(part.length + 1);
}

/** Runs a command of the stack. @throws Error with its standard error. */
async function stack(dataDir: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, QUESTLOG_DATA_DIR: dataDir, QUESTLOG_STACK_JARS: JARS };
  const { stdout } = await promisify(execFile)(process.execPath, [STACK, ...args], { env });
  return stdout;
}
