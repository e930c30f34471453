/** Starts the broker, the registry, and the ClickHouse of a benchmark, and ends them. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { ClusterEngines } from '../../e2e/cluster.ts';
import { JARS } from '../../engines/localEngines.ts';
import type { MachineFacts, RunFacts } from './pathFigures.ts';

const STACK = fileURLToPath(new URL('../../../deploy/kafka-local/stack.ts', import.meta.url));

/** Partitions of the compared topics, as many as in the tests. */
export const PARTITIONS = 4;

export interface BenchStack {
  readonly engines: ClusterEngines;
  /** Folder for the files of the run; removed at its end. */
  readonly folder: string;
  readonly kafkaVersion: string;
  readonly brokerPid: number;
  readonly clickhousePid: number;
  /** Bytes of the topics with the prefix in the broker's log. */
  brokerBytes(topics: string): number;
  /** Ends everything that runs on the stack; a process is registered before it starts. */
  readonly ending: AsyncDisposableStack;
}

const INTERRUPTED = 130;

/** Returns the stack of cleanups. An interrupt runs it too. */
export function benchEnding(): AsyncDisposableStack {
  const ending = new AsyncDisposableStack();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void ending.disposeAsync().finally(() => process.exit(INTERRUPTED)));
  }
  return ending;
}

/** Prints a line; on a terminal, the next line replaces it. */
export function say(line: string): void {
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : line && `bench: ${line}\n`);
}

/** Starts the stack and registers its end before the start. @throws Error with the output of the stack */
export async function startBenchStack(ending: AsyncDisposableStack): Promise<BenchStack> {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-bench-'));
  ending.defer(() => rmSync(folder, { recursive: true, force: true }));
  const started = stack(folder, 'up', '--brokers', '1');
  ending.defer(async () => {
    // An interrupted start may not have printed its processes yet.
    await started.catch(() => {});
    await stack(folder, 'down');
  });
  const told = await started;
  const status = await stack(folder, 'status');
  const value = (name: string): string => new RegExp(`^${name}=(.+)$`, 'm').exec(told)?.[1] ?? '';
  return {
    engines: {
      brokers: value('KAFKA_BROKERS'),
      registryUrl: value('SCHEMA_REGISTRY_URL'),
      clickhouseUrl: value('CLICKHOUSE_URL'),
    },
    folder,
    kafkaVersion: kafkaVersion(),
    brokerPid: Number(/^broker-1 (\d+) /m.exec(status)?.[1]),
    clickhousePid: Number(/^clickhouse (\d+) /m.exec(status)?.[1]),
    brokerBytes: (topics) => segmentBytes(join(folder, 'stack', 'cluster', 'broker-1', 'log'), topics),
    ending,
  };
}

/** @param loadBefore load average before the stack started */
export function factsOf(
  { kafkaVersion }: BenchStack,
  { seconds, runs }: Pick<RunFacts, 'seconds' | 'runs'>,
  loadBefore: number,
): RunFacts {
  return { ...machineFacts(loadBefore), kafka: kafkaVersion, seconds, runs };
}

export function machineFacts(loadBefore: number): MachineFacts {
  const gibibytes = (totalmem() / 1024 ** 3).toFixed(0);
  return {
    at: new Date().toISOString(),
    machine: `${cpus()[0]?.model ?? 'an unknown CPU'}, ${cpus().length} cores, ${gibibytes} GiB, ${process.platform}`,
    node: process.versions.node,
    loadBefore,
  };
}

/** Returns the bytes of segments, without indexes, whose files are preallocated. */
function segmentBytes(folder: string, topics: string): number {
  const partitions = readdirSync(folder).filter((name) => name.startsWith(topics));
  const segments = partitions.flatMap((name) =>
    readdirSync(join(folder, name))
      .filter((file) => file.endsWith('.log'))
      .map((file) => join(folder, name, file)),
  );
  return segments.reduce((sum, path) => sum + statSync(path).size, 0);
}

function kafkaVersion(): string {
  const jars = readdirSync(join(JARS, 'kafka'));
  return jars.flatMap((name) => /^kafka-clients-(.+)\.jar$/.exec(name)?.[1] ?? [])[0] ?? 'unknown';
}

/** @throws Error with the standard error of the command */
async function stack(dataDir: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, QUESTLOG_DATA_DIR: dataDir, QUESTLOG_STACK_JARS: JARS };
  const { stdout } = await promisify(execFile)(process.execPath, [STACK, ...args], { env });
  return stdout;
}
