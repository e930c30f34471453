/** Runs kcat and fastavro. These external tools read and write the topics of Questlog. */
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { pythonWith } from '@questlog/runtime/process/testing/pythonEnvironment';
import { failIfRequired } from '@questlog/runtime/process/testing/required';

/** A record as kcat prints it. */
export interface KcatRecord {
  readonly partition: number;
  readonly key: string;
  /** Headers as kcat prints them: `name=value,…`. */
  readonly headers: string;
  readonly value: Buffer;
}

export interface OtherTools {
  /** Reads all committed records of a topic. */
  read(topic: string): Promise<KcatRecord[]>;
  /** Appends one record. kcat selects the partition. */
  write(topic: string, key: string, value: Buffer): Promise<void>;
  /** Decodes records. Times are in microseconds. */
  // biome-ignore lint/suspicious/noExplicitAny: the test reads several kinds of records.
  decode(values: readonly Buffer[]): Promise<any[]>;
  /** Encodes a record with the latest schema of the subject, in the wire format of Confluent. */
  encode(subject: string, record: object): Promise<Buffer>;
}

const run = promisify(execFile);
const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/**
 * Returns the tools. If a tool is missing, prints the reason and returns undefined. @throws Error if `QUESTLOG_REQUIRE` names
 * the missing tool.
 */
export async function findOtherTools(brokers: string, registryUrl: string): Promise<OtherTools | undefined> {
  const python = await pythonWith(here('./requirements.txt'), 'fastavro');
  if (spawnSync('kcat', ['-V']).status !== 0) {
    failIfRequired('kcat', 'kcat is not installed');
    console.warn('skipped: kcat is not installed');
    return undefined;
  }
  if (python === undefined) return undefined;
  const avro = (args: readonly string[], input: string): Promise<string> =>
    withInput(python, [here('./avro.py'), args[0] ?? '', registryUrl, ...args.slice(1)], input);
  return {
    read: async (topic) => {
      const format = '%p\t%K\t%S\t%h\n%k%s';
      const args = ['-C', '-b', brokers, '-t', topic, '-o', 'beginning', '-e', '-q', '-f', format];
      const { stdout } = await run('kcat', args, { encoding: 'buffer', maxBuffer: MAX_OUTPUT_BYTES });
      return recordsIn(stdout);
    },
    write: async (topic, key, value) => {
      const folder = mkdtempSync(join(tmpdir(), 'questlog-kcat-'));
      try {
        const file = join(folder, 'value');
        writeFileSync(file, value);
        await run('kcat', ['-P', '-b', brokers, '-t', topic, '-k', key, file]);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
    decode: async (values) => {
      const lines = await avro(['decode'], values.map((value) => `${value.toString('base64')}\n`).join(''));
      return lines
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line));
    },
    encode: async (subject, record) =>
      Buffer.from(await avro(['encode', subject], JSON.stringify(record)), 'base64'),
  };
}

/**
 * Parses the output of kcat. Each record has a line with the partition, the lengths, and the headers. The bytes of the key and
 * the value follow the line.
 */
function recordsIn(output: Buffer): KcatRecord[] {
  const records: KcatRecord[] = [];
  for (let at = 0; at < output.length; ) {
    const lineEnd = output.indexOf('\n', at);
    const [partition, keyLength, valueLength, headers = ''] = output
      .toString('utf8', at, lineEnd)
      .split('\t');
    const valueAt = lineEnd + 1 + Number(keyLength);
    const key = output.toString('utf8', lineEnd + 1, valueAt);
    at = valueAt + Number(valueLength);
    records.push({ partition: Number(partition), key, headers, value: output.subarray(valueAt, at) });
  }
  return records;
}

async function withInput(file: string, args: readonly string[], input: string): Promise<string> {
  const running = run(file, [...args], { maxBuffer: MAX_OUTPUT_BYTES });
  running.child.stdin?.end(input);
  return (await running).stdout;
}
