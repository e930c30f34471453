/**
 * Determines the partition of a record. The sessions of a large tenant use several partitions. A session's lane is the distance
 * of its partition from the tenant's first partition, the home partition.
 */
import { createHash } from 'node:crypto';

/** Returns `(toPositive(murmur2(tenantId)) + lane) mod partitions`. Lane 0 is the partition of Kafka's `DefaultPartitioner`. */
export function partitionOf(tenantId: string, lane: number, partitions: number): number {
  return ((murmur2(Buffer.from(tenantId, 'utf8')) & 0x7fffffff) + lane) % partitions;
}

export function partitionFromHome(home: number, lane: number, partitions: number): number {
  return (home + lane) % partitions;
}

export function partitionsOf(tenantId: string, lanes: readonly number[], partitions: number): number[] {
  return [...new Set(lanes.map((lane) => partitionOf(tenantId, lane, partitions)))];
}

/** Returns the lane of a new session: a number that determines its partition, computed as a hash of the session id. */
export function laneOfSession(sessionId: string, spread: number): number {
  if (spread <= 1) return 0;
  return createHash('sha256').update(sessionId).digest().readUInt32BE(0) % spread;
}

/** Returns the MurmurHash2 of Kafka (`org.apache.kafka.common.utils.Utils.murmur2`) as a signed 32-bit integer. */
export function murmur2(data: Buffer): number {
  const m = 0x5bd1e995;
  const length = data.length;
  let h = 0x9747b28c ^ length;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    let k = data.readInt32LE(i);
    k = Math.imul(k, m);
    k ^= k >>> 24;
    k = Math.imul(k, m);
    h = Math.imul(h, m) ^ k;
  }
  const rest = length - i;
  if (rest >= 3) h ^= data.readUInt8(i + 2) << 16;
  if (rest >= 2) h ^= data.readUInt8(i + 1) << 8;
  if (rest >= 1) {
    h ^= data.readUInt8(i);
    h = Math.imul(h, m);
  }
  h ^= h >>> 13;
  h = Math.imul(h, m);
  return h ^ (h >>> 15);
}
