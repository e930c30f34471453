/**
 * Overwrites the unused bytes of the log's file with zeros. SQLite leaves copies of records in neighboring pages when it moves
 * rows (`rebuildPage`), and `secure_delete` does not overwrite these copies. `VACUUM` would remove the copies but would block
 * every append.
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
  #isPassNeeded = true;
  #nextPage = FIRST_PAGE;

  constructor(database: LogDatabase) {
    this.#database = database;
    this.#zeros = Buffer.alloc(database.pageBytes);
  }

  noteDeletion(): void {
    this.#isPassNeeded = true;
  }

  /** Empties the write-ahead log, whose old pages can contain deleted records. Then overwrites unused bytes of some pages. */
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

  #pagesToOverwrite({ first, pages, mapPage, map }: Chunk): number[] {
    return pages.flatMap((page, index) => {
      const number = first + index;
      const isTrunk = false;
      const unused = number === mapPage ? [] : unusedIn(page, pageTypeIn(map, mapPage, number), isTrunk);
      return unused.some((range) => !this.#isZero(page, range)) ? [number] : [];
    });
  }

  /** Overwrites the pages synchronously, so that no append can change a page. A crash during the call damages no records. */
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

/** First page that is checked for unused bytes. Page 1 contains the schema, and page 2 is a pointer map page. */
const FIRST_PAGE = 2;
/** Byte position in the file header at which the number of the first trunk page is stored. Trunk pages list the free pages. */
const FIRST_TRUNK_AT = 32;
/** One call checks at most this number of bytes, which takes about 0.1 s. With one call per minute, 100 GB take 14 h. */
const MAX_BYTES_PER_CALL = 128 * 1024 * 1024;
/** Maximum number of pages per read. One read blocks the event loop for less than 1 ms. */
const PAGES_PER_READ = 64;
/** Maximum number of pages that one synchronous call overwrites. The call takes a few milliseconds. */
const MAX_PAGES_AT_ONCE = 256;
