/** What a run of a bench stands on: one broker, with the registry and the ClickHouse that Questlog needs, and its end. */
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

/** Of what is compared, as many as a deployment of the tests has. */
export const PARTITIONS = 4;

export interface BenchStack {
  readonly engines: ClusterEngines;
  /** For the files of the run; removed with it. */
  readonly folder: string;
  readonly kafkaVersion: string;
  readonly clickhousePid: number;
  /** Bytes of the broker's log in topics whose names begin so. */
  brokerBytes(topics: string): number;
  /** What starts on it ends with it, and is told to it before it starts. */
  readonly ending: AsyncDisposableStack;
}

const INTERRUPTED = 130;

/** What the bench starts. An interrupt ends it too. */
export function benchEnding(): AsyncDisposableStack {
  const ending = new AsyncDisposableStack();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void ending.disposeAsync().finally(() => process.exit(INTERRUPTED)));
  }
  return ending;
}

/** One line: on a terminal the next one takes its place. */
export function say(line: string): void {
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : line && `bench: ${line}\n`);
}

/** Ends with `ending`, whatever becomes of its start. @throws with what the stack says. */
export async function startBenchStack(ending: AsyncDisposableStack): Promise<BenchStack> {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-bench-'));
  ending.defer(() => rmSync(folder, { recursive: true, force: true }));
  const started = stack(folder, 'up', '--brokers', '1');
  ending.defer(async () => {
    // A start under way may not have told yet what it has started.
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
    clickhousePid: Number(/^clickhouse (\d+) /m.exec(status)?.[1]),
    brokerBytes: (topics) => segmentBytes(join(folder, 'stack', 'cluster', 'broker-1', 'log'), topics),
    ending,
  };
}

/** @param loadBefore before the stack was started. */
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

/** Of the segments alone: their indexes are as long as they may ever become. */
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

/** @throws with what the command writes to standard error. */
async function stack(dataDir: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, QUESTLOG_DATA_DIR: dataDir, QUESTLOG_STACK_JARS: JARS };
  const { stdout } = await promisify(execFile)(process.execPath, [STACK, ...args], { env });
  return stdout;
}
