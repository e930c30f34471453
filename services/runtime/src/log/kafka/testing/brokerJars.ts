/** Finds Kafka's jars for a test that needs a broker with its own settings. */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../../../../../..', import.meta.url));
const STACK = join(ROOT, 'deploy/kafka-local/stack.ts');

export interface BrokerJars {
  readonly classPath: string;
  /** Options of Java for a fast start. Java ignores an archive of classes that is missing or belongs to another version. */
  readonly quickStart: readonly string[];
}

/** Returns the jars, or the reason why they are missing. The command `npm run stack` downloads the jars. */
export async function brokerJars(): Promise<BrokerJars | { lack: string }> {
  const jars = process.env['QUESTLOG_STACK_JARS'] ?? join(ROOT, 'node_modules/.cache/questlog-jars');
  const lack =
    (await missingJava()) ?? (existsSync(join(jars, 'pom.xml')) ? undefined : await fetchJars(jars));
  if (lack !== undefined) return { lack };
  return {
    classPath: join(jars, 'kafka', '*'),
    quickStart: [
      '-XX:TieredStopAtLevel=1',
      '-XX:+UseSerialGC',
      `-XX:SharedArchiveFile=${join(jars, 'kafka.jsa')}`,
    ],
  };
}

async function missingJava(): Promise<string | undefined> {
  return await promisify(execFile)('java', ['-version']).then(
    () => undefined,
    () => 'there is no Java',
  );
}

/**
 * Downloads the jars.
 * @returns the requirement that is missing. Undefined if the download succeeded.
 */
async function fetchJars(jars: string): Promise<string | undefined> {
  const dataDir = mkdtempSync(join(tmpdir(), 'questlog-jars-'));
  const env = { ...process.env, QUESTLOG_DATA_DIR: dataDir, QUESTLOG_STACK_JARS: jars };
  const stack = (command: string) => promisify(execFile)(process.execPath, [STACK, command], { env });
  try {
    await stack('up');
    await stack('down');
    return undefined;
  } catch (error) {
    const output = String(error instanceof Error ? Reflect.get(error, 'stderr') : error).trim();
    if (/is needed|needs Linux/.test(output)) return output;
    throw error;
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}
