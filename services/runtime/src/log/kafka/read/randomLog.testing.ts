/**
 * Generates random responses for one partition. A response contains batches of many producers and codecs, transactions, and
 * gaps.
 */
import { aBatch, type RecordParts } from './aBatch.testing.ts';
import type { AbortedTransaction } from './recordBatches.ts';

export interface RandomLog {
  readonly bytes: Buffer;
  /** Start position of the reader. The position may be inside a batch. */
  readonly position: number;
  readonly aborted: readonly AbortedTransaction[];
  isAborted(offset: number): boolean;
}

/** @param seed the seed of the random numbers. The same seed returns the same log. */
export function aRandomLog(seed: number, batches: number): RandomLog {
  const random = randomOf(seed);
  const upTo = (count: number) => Math.floor(random() * count);
  const oneOf = <T>(values: readonly T[]): T | undefined => values[upTo(values.length)];
  const parts: Buffer[] = [];
  const aborted: AbortedTransaction[] = [];
  const gone = new Set<number>();
  /** Offsets of each open transaction, by producer. */
  const open = new Map<number, number[]>();
  let offset = upTo(2) * 2 ** 33 + upTo(100);
  const start = offset;
  let leaderEpoch = upTo(3);
  while (parts.length < batches) {
    if (random() < 0.1) leaderEpoch += 1 + upTo(3);
    if (random() < 0.1) offset += upTo(5);
    const producerId = upTo(4);
    const own = open.get(producerId);
    if (own !== undefined && random() < 0.4) {
      const marker = oneOf(['abort', 'commit'] as const) ?? 'abort';
      if (marker === 'abort') {
        for (const one of own) gone.add(one);
        aborted.push({ producerId: BigInt(producerId), firstOffset: own[0] ?? offset });
      }
      open.delete(producerId);
      parts.push(aBatch({ offset, leaderEpoch, producerId, marker }));
      offset += 1;
      continue;
    }
    const isTransactional = random() < 0.5;
    const deltas = Array.from({ length: upTo(8) }, (_, delta) => delta).filter(() => random() < 0.9);
    const lastOffset = offset + (deltas.at(-1) ?? 0) + upTo(2);
    if (isTransactional) open.set(producerId, [...(own ?? []), ...offsetsTo(offset, lastOffset)]);
    const codec = oneOf(['none', 'gzip', 'zstd'] as const) ?? 'none';
    const records = deltas.map((delta) => aRandomRecord(random, delta));
    const appendedMs = random() < 0.2 ? { appendedMs: 1_800_000_000_000 + upTo(1000) } : {};
    parts.push(
      aBatch({ offset, lastOffset, leaderEpoch, codec, producerId, isTransactional, records, ...appendedMs }),
    );
    offset = lastOffset + 1;
  }
  // Brokers list aborted transactions that overlap the response. Transactions that are still open are not aborted.
  return {
    bytes: Buffer.concat(parts),
    position: random() < 0.5 ? start : start + upTo(offset - start),
    aborted,
    isAborted: (one) => gone.has(one),
  };
}

function aRandomRecord(random: () => number, delta: number): RecordParts {
  const text = () => oneText[Math.floor(random() * oneText.length)] ?? '';
  const headers = Array.from({ length: Math.floor(random() * 4) }, () => {
    const value = random() < 0.2 ? null : text();
    return [`name ${Math.floor(random() * 3)}`, value] as const;
  });
  return {
    delta,
    timeDelta: Math.floor((random() - 0.3) * 10 ** Math.floor(random() * 11)),
    key: random() < 0.2 ? null : text(),
    value: random() < 0.2 ? null : Buffer.from(text().repeat(Math.floor(random() * 40)), 'latin1'),
    headers,
  };
}

const oneText = ['', 'a', 'tenant', 'é', '\u{1f600}', 'x'.repeat(63), 'x'.repeat(64), 'x'.repeat(200)];

function offsetsTo(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/** Returns a generator of numbers from 0 to 1 (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
