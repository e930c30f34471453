/**
 * Overwrites the unused bytes of the log's pages with zeros. `secure_delete` overwrites a record in the page from which the
 * record is deleted. Copies of the record can remain in other pages, because SQLite moves rows between neighboring pages and
 * leaves the old bytes (`rebuildPage`). Only `VACUUM` would remove these copies, but `VACUUM` blocks every append.
 */
import { writeSync } from 'node:fs';
import { Unavailable } from '../../../process/errors.ts';
import { yieldToEventLoop } from '../../../process/waiting.ts';
import type { LogDatabase } from '../database.ts';
import {
  type ByteRange,
  mapPageOf,
  PAGE_TYPE,
  pageTypeIn,
  trunksFrom,
  unusedInBtree,
  unusedInFree,
} from './pageLayout.ts';

export class UnusedBytes {
  readonly #database: LogDatabase;
  readonly #zeros: Buffer;
  /**
   * True if records were deleted since the last pass started. Initially true, because an earlier process may have left bytes.
   */
  #isPassNeeded = true;
  /** Number of the next page of the current pass. `FIRST_PAGE` if no pass is running. */
  #nextPage = FIRST_PAGE;

  constructor(database: LogDatabase) {
    this.#database = database;
    this.#zeros = Buffer.alloc(database.pageBytes);
  }

  noteDeletion(): void {
    this.#isPassNeeded = true;
  }

  /** Empties the write-ahead log, because it contains earlier versions of pages. Then processes a limited part of the file. */
  async overwrite(isStopped: () => boolean): Promise<void> {
    if (!this.#isPassNeeded && this.#nextPage === FIRST_PAGE) return;
    if (!this.#database.emptyWal()) return;
    if (!this.#database.returnsSpace) {
      this.#isPassNeeded = false;
      return;
    }
    let remainingPages = Math.floor(MAX_BYTES_PER_CALL / this.#database.pageBytes);
    let found: number[] = [];
    while (!isStopped() && remainingPages > 0) {
      if (this.#nextPage === FIRST_PAGE) this.#isPassNeeded = false;
      const chunk = await this.#readChunk();
      found.push(...this.#pagesToOverwrite(chunk));
      remainingPages -= chunk.pages.length;
      this.#nextPage += chunk.pages.length;
      const isEnd = chunk.pages.length === 0;
      if (isEnd || remainingPages <= 0 || found.length >= MAX_PAGES_AT_ONCE) {
        this.#overwritePages(found);
        found = [];
      }
      if (isEnd) {
        this.#nextPage = FIRST_PAGE;
        return;
      }
      await yieldToEventLoop();
    }
  }

  /** Reads pages that the same pointer map page describes. The chunk is empty at the end of the file. */
  async #readChunk(): Promise<Chunk> {
    const { pageBytes } = this.#database;
    const first = this.#nextPage;
    const mapPage = mapPageOf(first, pageBytes);
    const nextMapPage = mapPage + Math.floor(pageBytes / 5) + 1;
    const count = Math.min(PAGES_PER_READ, nextMapPage - first);
    const [map, bytes] = [Buffer.alloc(pageBytes), Buffer.alloc(count * pageBytes)];
    const readBytes = await this.#database.readFile(bytes, (first - 1) * pageBytes);
    await this.#database.readFile(map, (mapPage - 1) * pageBytes);
    const pages = Array.from({ length: Math.floor(readBytes / pageBytes) }, (_, index) =>
      bytes.subarray(index * pageBytes, (index + 1) * pageBytes),
    );
    return { first, pages, mapPage, map };
  }

  /** Returns the numbers of the pages whose unused bytes are not zero. The pages may change before they are overwritten. */
  #pagesToOverwrite({ first, pages, mapPage, map }: Chunk): number[] {
    return pages.flatMap((page, index) => {
      const number = first + index;
      const isTrunk = false;
      const unused = number === mapPage ? [] : unusedIn(page, pageTypeIn(map, mapPage, number), isTrunk);
      return unused.some((range) => !this.#isZero(page, range)) ? [number] : [];
    });
  }

  /**
   * Overwrites the unused bytes in one turn of the event loop. The write-ahead log is empty, so the file is current. Only
   * unused bytes change, so an interrupted write damages nothing.
   */
  #overwritePages(numbers: readonly number[]): void {
    if (numbers.length === 0) return;
    const database = this.#database;
    const { pageBytes } = database;
    if (!database.emptyWal()) {
      this.#isPassNeeded = true;
      return;
    }
    const pageAt = (number: number): Buffer => {
      const page = Buffer.alloc(pageBytes);
      database.readFileSync(page, (number - 1) * pageBytes);
      return page;
    };
    try {
      const trunks = trunksFrom(pageAt(1).readUInt32BE(FIRST_TRUNK_AT), pageAt);
      const maps = new Map<number, Buffer>();
      for (const number of numbers) {
        const mapPage = mapPageOf(number, pageBytes);
        if (!maps.has(mapPage)) maps.set(mapPage, pageAt(mapPage));
        const page = pageAt(number);
        const type = pageTypeIn(maps.get(mapPage) ?? this.#zeros, mapPage, number);
        for (const { from, to } of unusedIn(page, type, trunks.has(number))) {
          writeSync(database.file(), this.#zeros, 0, to - from, (number - 1) * pageBytes + from);
        }
      }
    } catch (cause) {
      this.#isPassNeeded = true;
      throw new Unavailable("the log's file: deleted records could not be overwritten", { cause });
    } finally {
      database.clearPageCache();
    }
  }

  #isZero(page: Buffer, { from, to }: ByteRange): boolean {
    return page.compare(this.#zeros, 0, to - from, from, to) === 0;
  }
}

function unusedIn(page: Buffer, type: number | undefined, isTrunk: boolean): ByteRange[] {
  if (type === PAGE_TYPE.free) return unusedInFree(page, isTrunk) ?? [];
  if (type === PAGE_TYPE.root || type === PAGE_TYPE.btree) return unusedInBtree(page) ?? [];
  return [];
}

interface Chunk {
  readonly first: number;
  readonly pages: readonly Buffer[];
  readonly mapPage: number;
  readonly map: Buffer;
}

/** Number of the first page that a pass reads. Page 1 has the schema. Page 2 is the first pointer map page. */
const FIRST_PAGE = 2;
/** Position in the file header at which the number of the first trunk page is stored. */
const FIRST_TRUNK_AT = 32;
/**
 * Maximum bytes that one call processes, which takes about 0.1 s of CPU. With one call per minute, a file of 100 GB takes 14
 * hours.
 */
const MAX_BYTES_PER_CALL = 128 * 1024 * 1024;
/** Maximum number of pages per read. One read blocks the event loop for less than 1 ms. */
const PAGES_PER_READ = 64;
/** Maximum number of pages that are overwritten at once. Overwriting this number takes a few milliseconds. */
const MAX_PAGES_AT_ONCE = 256;
