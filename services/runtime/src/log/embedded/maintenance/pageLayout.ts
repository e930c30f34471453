/** Finds the unused bytes in the pages of an SQLite file (https://sqlite.org/fileformat2.html). */

export interface ByteRange {
  readonly from: number;
  readonly to: number;
}

/** Types of SQLite pages in the pointer map (section 1.8 of the file format). Only `auto_vacuum` creates a pointer map. */
export const PAGE_TYPE = { root: 1, free: 2, btree: 5 } as const;

/** Position of the lock bytes in a file. SQLite does not use the page at this position (SQLite file format, section 1.3). */
const PENDING_BYTE = 0x40000000;
const MAP_ENTRY_BYTES = 5;

/** Returns the SQLite pointer map page that contains the entry of `page`, or `page` if `page` itself is a pointer map page. */
export function mapPageOf(page: number, pageBytes: number): number {
  const described = Math.floor(pageBytes / MAP_ENTRY_BYTES) + 1;
  const first = Math.floor((page - 2) / described) * described + 2;
  return first === PENDING_BYTE / pageBytes + 1 ? first + 1 : first;
}

/** Reads the type of the page `page` from the pointer map page `map`. Returns undefined if `map` has no entry for `page`. */
export function pageTypeIn(map: Buffer, mapPage: number, page: number): number | undefined {
  const at = (page - mapPage - 1) * MAP_ENTRY_BYTES;
  return at >= 0 && at < map.length ? map[at] : undefined;
}

const LEAF_HEADER_BYTES = 8;
const INTERIOR_HEADER_BYTES = 12;
/** Size of the header of a b-tree page, for each value of the page's first byte (section 1.6 of the file format). */
const HEADER_BYTES: Readonly<Record<number, number>> = {
  2: INTERIOR_HEADER_BYTES,
  5: INTERIOR_HEADER_BYTES,
  10: LEAF_HEADER_BYTES,
  13: LEAF_HEADER_BYTES,
};
const FREEBLOCK_HEADER_BYTES = 4;

/** Returns the unused byte ranges of a b-tree page. Returns undefined if the page is malformed. Does not support page 1. */
export function unusedInBtree(page: Buffer): ByteRange[] | undefined {
  const header = HEADER_BYTES[page[0] ?? 0];
  if (header === undefined) return undefined;
  const pointersEnd = header + 2 * page.readUInt16BE(3);
  const cellsStart = page.readUInt16BE(5) || 65_536;
  if (pointersEnd > cellsStart || cellsStart > page.length) return undefined;
  const ranges: ByteRange[] = [{ from: pointersEnd, to: cellsStart }];
  let end = cellsStart;
  for (let at = page.readUInt16BE(1); at !== 0; at = page.readUInt16BE(at)) {
    if (at < end || at + FREEBLOCK_HEADER_BYTES > page.length) return undefined;
    end = at + page.readUInt16BE(at + 2);
    if (end < at + FREEBLOCK_HEADER_BYTES || end > page.length) return undefined;
    ranges.push({ from: at + FREEBLOCK_HEADER_BYTES, to: end });
  }
  return ranges;
}

/** Returns the unused bytes of a free page (SQLite file format, section 1.5). */
export function unusedInFree(page: Buffer, isTrunk: boolean): ByteRange[] | undefined {
  if (!isTrunk) return [{ from: 0, to: page.length }];
  const from = 8 + 4 * page.readUInt32BE(4);
  return from > page.length ? undefined : [{ from, to: page.length }];
}

/** Returns the numbers of the trunk pages. Trunk pages are the pages that list the free pages. */
export function trunksFrom(first: number, pageAt: (page: number) => Buffer): Set<number> {
  const trunks = new Set<number>();
  for (let page = first; page !== 0 && !trunks.has(page); page = pageAt(page).readUInt32BE(0))
    trunks.add(page);
  return trunks;
}
