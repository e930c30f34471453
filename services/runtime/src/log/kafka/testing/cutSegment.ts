/** Takes the end of a partition away under a broker that was killed: as after a power loss, or an unclean election. */
import { readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';

export interface CutPlace {
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
export function cutSegment({ logFolder, topic, partition }: CutPlace, offset: number): number | undefined {
  const folder = join(logFolder, `${topic}-${partition}`);
  let gone: number | undefined;
  for (const segment of segmentsOf(folder)) {
    const bytes = readFileSync(segment.path);
    const begin = beginOf(bytes, offset);
    if (begin < bytes.length) gone ??= Number(bytes.readBigInt64BE(begin));
    if (segment.isFirst || begin > 0) truncateSync(segment.path, begin);
    else for (const ending of ['log', 'index', 'timeindex', 'txnindex']) removeFile(segment.path, ending);
  }
  return gone;
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
function beginOf(bytes: Buffer, offset: number): number {
  let begin = 0;
  while (begin < bytes.length && Number(bytes.readBigInt64BE(begin)) < offset) {
    begin += 12 + bytes.readInt32BE(begin + 8);
  }
  return begin;
}
