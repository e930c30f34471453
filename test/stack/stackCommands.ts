/** `npm run stack` as its user has it: commands on a data directory of its own, what they print, what they exit with. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const STACK = join(ROOT, 'deploy/kafka-local/stack.ts');
/** Kept from run to run, so that only the first one on a machine fetches. */
const JARS = join(ROOT, 'node_modules/.cache/questlog-jars');

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface NodeStatus {
  /** NaN where there is no process. */
  readonly pid: number;
  readonly port: number;
  readonly state: string;
}

export interface StackCommands {
  readonly dataDir: string;
  /** Never rejects: a refusal is an outcome, too. */
  run(...args: string[]): Promise<Outcome>;
  /** @returns what it prints. @throws where it fails, with what it says. */
  do(...args: string[]): Promise<string>;
  /** A line of a shell, in the project's folder. */
  shell(line: string): Promise<Outcome>;
  /** By name. */
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

  async function done(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await run(...args);
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
    return stdout;
  }

  async function status(): Promise<Record<string, NodeStatus>> {
    const lines = (await done('status')).trimEnd().split('\n');
    return Object.fromEntries(
      lines.map((line) => {
        const [name = '', pid, port, state = ''] = line.split(' ');
        return [name, { pid: Number(pid), port: Number(port), state }];
      }),
    );
  }

  async function remove(): Promise<void> {
    await done('down');
    rmSync(dataDir, { recursive: true, force: true });
  }

  return { dataDir, run, do: done, shell: (line) => execute('sh', ['-c', line]), status, remove };
}

export interface StackEngines {
  readonly brokers: string;
  readonly registryUrl: string;
  readonly clickhouseUrl: string;
}

/** Starts three brokers, a registry and a ClickHouse. @returns why not, where this machine lacks something for them. */
export async function threeBrokers(commands: StackCommands): Promise<StackEngines | { lack: string }> {
  const up = await commands.run('up', '--brokers', '3');
  const lack = whatIsLacking(up.stderr);
  if (lack !== undefined) return { lack };
  if (up.code !== 0) throw new Error(up.stderr);
  const env = environmentIn(up.stdout);
  return {
    brokers: env['KAFKA_BROKERS'] ?? '',
    registryUrl: env['SCHEMA_REGISTRY_URL'] ?? '',
    clickhouseUrl: env['CLICKHOUSE_URL'] ?? '',
  };
}

/**
 * Names what this machine lacks for a stack, from the standard error of `up`.
 * @throws where `QUESTLOG_REQUIRE` asks for kafka all the same.
 */
export function whatIsLacking(stderr: string): string | undefined {
  const lack = /^stack: (.*(is needed|needs Linux).*)$/m.exec(stderr)?.[1];
  const isRequired = /\bkafka\b/.test(process.env['QUESTLOG_REQUIRE'] ?? '');
  if (lack !== undefined && isRequired) throw new Error(`QUESTLOG_REQUIRE asks for kafka, but: ${lack}`);
  return lack;
}

/** Parses lines of `NAME=value`. */
export function environmentIn(lines: string): Record<string, string> {
  const pairs = lines.trimEnd().split('\n');
  return Object.fromEntries(
    pairs.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}
