/** Builders for tests of the directory: its topic on an embedded log, a process that uses the directory, and a tenant. */
import type { Tenant } from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { onTestFinished } from 'vitest';
import type { EmbeddedExtras } from '../../log/embedded/embeddedLog.ts';
import { aLog, topicSpec } from '../../log/embedded/testing/testLog.ts';
import type { Log } from '../../log/log.ts';
import { silentLogger } from '../../process/logger.ts';
import { openLogRegistry } from '../../registry/logRegistry.ts';
import type { SchemaRegistry } from '../../registry/registry.ts';
import { type DirectoryHandle, openDirectory } from '../openDirectory.ts';

export async function anEmptyTopic(): Promise<{ log: Log & EmbeddedExtras; registry: SchemaRegistry }> {
  const log = await aLog();
  const compacted = { cleanup: { policy: 'compact' } } as const;
  await log.ensureTopics([topicSpec(TOPICS.directory, compacted), topicSpec(TOPICS.schemas)]);
  return { log, registry: await openLogRegistry(log) };
}

export async function opened({
  log,
  registry,
  ...limits
}: {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  readonly waitMs?: number;
  readonly copyAfterMs?: number;
}): Promise<DirectoryHandle> {
  const directory = await openDirectory(log, registry, silentLogger, limits);
  onTestFinished(() => directory.close());
  return directory;
}

export function aTenant(id: string): Tenant {
  return { id, name: 'T', monthlySoftQuota: null, spread: 1, createdAt: 1 };
}
