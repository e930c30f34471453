/** For the projector's tests: the embedded log and ClickHouse on a directory of their own, and a projector to run on them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openEmbeddedLog } from '@questlog/runtime/log/embedded/embeddedLog';
import type { Log } from '@questlog/runtime/log/log';
import { systemClock } from '@questlog/runtime/process/clock';
import { createHealth } from '@questlog/runtime/process/health';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetrics } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { startEmbeddedClickHouse } from '@questlog/runtime/store/embedded/embeddedClickHouse';
import { openMigrated } from '@questlog/runtime/store/migrate';
import type { Store } from '@questlog/runtime/store/store';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import { type DeadLetter, deadLetter } from '@questlog/schemas/topics/deadLetter';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { startProjector } from './projector.ts';

const MIGRATIONS = fileURLToPath(new URL('../../../deploy/clickhouse', import.meta.url));
const PASSWORD = 'test';

export interface Bench {
  readonly log: Log;
  readonly store: Store;
  append<T>(topic: string, contract: MessageContract<T>, messages: readonly T[]): Promise<void>;
  /** Runs a projector on this store until it has caught up; rejects when it breaks off. */
  projectAll(store: Store): Promise<void>;
  deadLetters(): Promise<DeadLetter[]>;
  close(): Promise<void>;
}

export async function openBench(): Promise<Bench> {
  const directory = mkdtempSync(join(tmpdir(), 'projector-'));
  const log = await openEmbeddedLog({ directory, clock: systemClock });
  const server = await startEmbeddedClickHouse({
    directory: join(directory, 'ch'),
    username: 'test',
    password: PASSWORD,
  });
  const access = { url: server.url, username: 'test', password: PASSWORD, database: 'questlog' };
  const store = await openMigrated(access, MIGRATIONS);
  // One partition: what the tests append is one sequence.
  await log.ensureTopics(topicDefinitions(1));
  const registry = await openLogRegistry(log);

  const projectAll = async (on: Store): Promise<void> => {
    const projector = await startProjector({
      log,
      store: on,
      registry,
      clock: systemClock,
      logger: silentLogger,
      metrics: createMetrics(),
      health: createHealth(),
      flushIntervalMs: 0,
    });
    try {
      await Promise.race([caughtUp(log), projector.failed]);
    } finally {
      await projector.stop();
    }
  };
  return {
    log,
    store,
    projectAll,
    append: async (topic, contract, messages) => {
      const codec = await createCodec(registry, contract);
      await log.append(
        topic,
        0,
        messages.map((message) => ({ key: null, value: codec.encode(message) })),
      );
    },
    deadLetters: () => readDeadLetters(log, registry),
    close: async () => {
      await store.close();
      await server.close();
      await log.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function caughtUp(log: Log): Promise<void> {
  const pairs = [
    [GROUPS.projectEvents, TOPICS.events],
    [GROUPS.projectSessions, TOPICS.sessions],
  ] as const;
  for (const [group, topic] of pairs) {
    const [end = 0] = await log.endOffsets(topic);
    while (((await log.committed(group, topic))[0]?.offset ?? 0) < end) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

async function readDeadLetters(log: Log, registry: Parameters<typeof createCodec>[0]): Promise<DeadLetter[]> {
  const codec = await createCodec(registry, deadLetter);
  const letters: DeadLetter[] = [];
  const tail = await log.tail({
    topic: TOPICS.deadLetters,
    from: 'earliest',
    onBatch: async (batch) => {
      for (const record of batch.records) letters.push(await codec.decode(record.value));
    },
  });
  await tail.reached(await log.endOffsets(TOPICS.deadLetters));
  await tail.close();
  return letters;
}
