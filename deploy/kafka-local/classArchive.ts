/** Archives Kafka's loaded classes (Java's AppCDS). With the archive, a broker starts with a third less CPU time. */
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brokerArguments, formatBrokers } from './brokerSetup.ts';
import { classArchive, type Jars } from './jars.ts';
import { withLock } from './lock.ts';
import { startDetached, stop } from './ownProcess.ts';
import { answers } from './probes.ts';
import { newStack } from './stackState.ts';
import { waitUntil } from './waitUntil.ts';

const TIMEOUT_MS = 180_000;

/** Creates the class archive if it does not exist. Starts and stops a broker, because a stopping broker writes the archive. */
export async function provideClassArchive(jars: Jars): Promise<void> {
  const archive = classArchive(jars);
  if (existsSync(archive)) return;
  await withLock(archive, async () => {
    if (existsSync(archive)) return;
    const folder = mkdtempSync(join(tmpdir(), 'questlog-classes-'));
    try {
      await writeArchive(folder, jars, `${archive}.unfinished`);
      renameSync(`${archive}.unfinished`, archive);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

async function writeArchive(folder: string, jars: Jars, path: string): Promise<void> {
  const { brokers, ...stack } = await newStack(1);
  const [broker] = brokers;
  if (broker === undefined) return;
  await formatBrokers(folder, { ...stack, brokers }, jars);
  // Removes `SharedArchiveFile`, because Java creates no archive if this option names a file that does not exist yet.
  const options = brokerArguments(folder, broker, jars).filter((option) => !option.includes('SharedArchive'));
  const args = [`-XX:ArchiveClassesAtExit=${path}`, ...options];
  const log = join(folder, 'broker.log');
  const running = await startDetached({ command: jars.java, args }, log);
  await waitUntil(() => answers(broker), { timeoutMs: TIMEOUT_MS, what: `${broker.name}; see ${log}` });
  await stop(running, TIMEOUT_MS);
}
