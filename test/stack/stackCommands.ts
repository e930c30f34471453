/** Runs the commands of `npm run stack` on a separate data directory, and returns their output and exit codes. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import type { ClusterEngines } from '../e2e/cluster.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const STACK = join(ROOT, 'deploy/kafka-local/stack.ts');
/** Kept between runs, so that only the first run on a machine downloads the jars. */
const JARS = join(ROOT, 'node_modules/.cache/questlog-jars');

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface NodeStatus {
  /** NaN if the node has no process. */
  readonly pid: number;
  readonly port: number;
  readonly state: string;
}

export interface StackCommands {
  readonly dataDir: string;
  /** Runs a command. Returns a failure as an outcome and never rejects. */
  run(...args: string[]): Promise<Outcome>;
  /** Runs a command and returns its output. @throws Error with its error output if the command fails. */
  do(...args: string[]): Promise<string>;
  /** Runs a shell command in the folder of the project. */
  shell(line: string): Promise<Outcome>;
  /** Returns the status of each node by name. */
  status(): Promise<Record<string, NodeStatus>>;
  /** Stops everything and removes the data. */
  remove(): Promise<void>;
}

export function stackCommands(dataDir = mkdtempSync(join(tmpdir(), 'questlog-stack-'))): StackCommands {
  const options = {
    cwd: ROOT,
    env: { ...process.env, QUESTLOG_DATA_DIR: dataDir, QUESTLOG_STACK_JARS: JARS },
  };

  function execute(file: string, args: string[]): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const child = execFile(file, args, options, (_, stdout, stderr) => {
        resolve({ code: child.exitCode ?? -1, stdout, stderr });
      });
      child.once('error', reject);
    });
  }

  const run = (...args: string[]): Promise<Outcome> => execute(process.execPath, [STACK, ...args]);

  async function runOrThrow(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await run(...args);
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
    return stdout;
  }

  async function status(): Promise<Record<string, NodeStatus>> {
    const lines = (await runOrThrow('status')).trimEnd().split('\n');
    return Object.fromEntries(
      lines.map((line) => {
        const [name = '', pid, port, state = ''] = line.split(' ');
        return [name, { pid: Number(pid), port: Number(port), state }];
      }),
    );
  }

  async function remove(): Promise<void> {
    await runOrThrow('down');
    rmSync(dataDir, { recursive: true, force: true });
  }

  return { dataDir, run, do: runOrThrow, shell: (line) => execute('sh', ['-c', line]), status, remove };
}

export interface StackEngines extends Pick<ClusterEngines, 'tables'> {
  readonly brokers: string;
  readonly registryUrl: string;
  readonly clickhouseUrl: string;
}

/** Starts three brokers, a registry, and ClickHouse. Returns the missing requirement if this machine cannot run them. */
export async function threeBrokers(commands: StackCommands): Promise<StackEngines | { lack: string }> {
  const up = await commands.run('up', '--brokers', '3');
  const lack = missingRequirement(up.stderr);
  if (lack !== undefined) return { lack };
  if (up.code !== 0) throw new Error(up.stderr);
  const env = environmentIn(up.stdout);
  return {
    brokers: env['KAFKA_BROKERS'] ?? '',
    registryUrl: env['SCHEMA_REGISTRY_URL'] ?? '',
    clickhouseUrl: env['CLICKHOUSE_URL'] ?? '',
  };
}

/** Returns the missing requirement from the error output of `up`. @throws Error if `QUESTLOG_REQUIRE` names kafka. */
export function missingRequirement(stderr: string): string | undefined {
  const lack = /^stack: (.*(is needed|needs Linux).*)$/m.exec(stderr)?.[1];
  if (lack !== undefined) failIfRequired('kafka', lack);
  return lack;
}

/** Parses lines of `NAME=value`. */
export function environmentIn(lines: string): Record<string, string> {
  const pairs = lines.trimEnd().split('\n');
  return Object.fromEntries(
    pairs.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}
