/** Deterministic records of the kill test. The writer and the reader compute the same records and can compare every byte. */
import { createHash } from 'node:crypto';
import type { NewRecord, TopicSpec } from '../../log.ts';

export const KILL_TOPIC: TopicSpec = {
  name: 'kill',
  partitions: 2,
  cleanup: { policy: 'delete', retentionMs: 60 * 60 * 1000 },
  maxRecordBytes: 1_000_000,
};

export interface KillAppend {
  readonly name: string;
  readonly partition: number;
  readonly count: number;
}

export function appendOf(run: string, worker: number, count: number): KillAppend {
  return { name: `${run}/${worker}/${count}`, partition: worker % 2, count: 1 + (count % 3) };
}

/** Returns records of different sizes, from tens of bytes to several overflow pages. */
export function recordsOf({ name, count }: KillAppend): NewRecord[] {
  return Array.from({ length: count }, (_, index) => {
    const digest = createHash('sha256').update(`${name}/${index}`).digest();
    return {
      key: name,
      value: Buffer.alloc(32 + (digest.readUInt16BE(0) % 20_000), digest),
      headers: { index: `${index}` },
    };
  });
}
