/** Temporary directories, a manual clock, and topics for tests of the embedded log. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Log, TopicSpec } from '../../log.ts';
import { type EmbeddedExtras, type EmbeddedLogOptions, openEmbeddedLog } from '../embeddedLog.ts';

export const HOUR_MS = 60 * 60 * 1000;

export class ManualClock {
  nowMs = Date.UTC(2026, 0, 1);

  now(): number {
    return this.nowMs;
  }
}

export function aDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'questlog-log-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export async function aLog(options: Partial<EmbeddedLogOptions> = {}): Promise<Log & EmbeddedExtras> {
  const log = await openEmbeddedLog({ directory: aDirectory(), clock: new ManualClock(), ...options });
  onTestFinished(() => log.close());
  return log;
}

export function topicSpec(name: string, spec: Partial<TopicSpec> = {}): TopicSpec {
  return {
    name,
    partitions: 1,
    cleanup: { policy: 'delete', retentionMs: HOUR_MS },
    maxRecordBytes: 1_000_000,
    ...spec,
  };
}
