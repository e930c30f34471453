/** Truncates the files of a killed broker's partition. This simulates a power loss or an unclean election. */
import { readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';

export interface TruncatedPartition {
  /** The broker's `log.dirs`. */
  readonly logFolder: string;
  /** Topic name with the prefix. */
  readonly topic: string;
  readonly partition: number;
}

/**
 * Deletes the batches from the offset on. The broker must have been killed, because a broker trusts its checkpoints after a
 * clean stop. Every replica must be truncated, because another replica would restore the records.
 * @returns the first deleted offset. Undefined if the partition ends before the offset.
 */
export function truncateSegments(
  { logFolder, topic, partition }: TruncatedPartition,
  offset: number,
): number | undefined {
  const folder = join(logFolder, `${topic}-${partition}`);
  let firstRemoved: number | undefined;
  for (const segment of segmentsOf(folder)) {
    const bytes = readFileSync(segment.path);
    const position = positionOf(bytes, offset);
    if (position < bytes.length) firstRemoved ??= Number(bytes.readBigInt64BE(position));
    if (segment.isFirst || position > 0) truncateSync(segment.path, position);
    else for (const ending of ['log', 'index', 'timeindex', 'txnindex']) removeFile(segment.path, ending);
  }
  return firstRemoved;
}

/** Returns the segments of the partition, oldest first. */
export function segmentsOf(folder: string): { path: string; isFirst: boolean }[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.log'))
    .toSorted()
    .map((name, index) => ({ path: join(folder, name), isFirst: index === 0 }));
}

function removeFile(path: string, ending: string): void {
  rmSync(path.replace(/log$/, ending), { force: true });
}

/** Returns the position of the first batch at or after the offset. */
function positionOf(bytes: Buffer, offset: number): number {
  let position = 0;
  while (position < bytes.length && Number(bytes.readBigInt64BE(position)) < offset) {
    position += 12 + bytes.readInt32BE(position + 8);
  }
  return position;
}
