/** Takes the end of a partition away under a broker that was killed: as after a power loss, or an unclean election. */
import { readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';

export interface TruncatedPartition {
  /** The broker's `log.dirs`. */
  readonly logFolder: string;
  /** As the cluster names it. */
  readonly topic: string;
  readonly partition: number;
}

/**
 * Takes the batches away that begin at the offset or behind it. The broker must have been killed, not stopped: one that
 * was stopped believes its files as they were. Every replica needs the same cut, or those that have more bring it back.
 * @returns the first offset that is gone; undefined where the partition ends before the offset.
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

/** The oldest first. */
export function segmentsOf(folder: string): { path: string; isFirst: boolean }[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.log'))
    .toSorted()
    .map((name, index) => ({ path: join(folder, name), isFirst: index === 0 }));
}

function removeFile(path: string, ending: string): void {
  rmSync(path.replace(/log$/, ending), { force: true });
}

/** Where the first batch begins that is not before the offset. */
function positionOf(bytes: Buffer, offset: number): number {
  let position = 0;
  while (position < bytes.length && Number(bytes.readBigInt64BE(position)) < offset) {
    position += 12 + bytes.readInt32BE(position + 8);
  }
  return position;
}
