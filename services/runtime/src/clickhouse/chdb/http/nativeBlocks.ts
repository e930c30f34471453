/**
 * Converts the format Native for clients that send `client_protocol_version`. These clients expect additional bytes at the
 * start of each block and, in newer versions, of each column. The engine writes the form for clients without a version.
 */
import { createReadStream } from 'node:fs';
import type { ByteStream } from '../../../process/inflate.ts';
import { Cursor, nativeType } from './nativeTypes.ts';
import type { RequestHead } from './requestParsing.ts';

/** Returns true if the result must be converted to the version of the format that the client can read. */
export function needsConversion({ clientVersion }: RequestHead, format: string | undefined): boolean {
  return clientVersion > 0 && format === 'Native';
}

/**
 * Reads the types in a file's first block. All blocks have the same types. @throws ClickHouseException for an unsupported type.
 */
export async function checkTypes(path: string): Promise<void> {
  const cursor = new Cursor();
  const block = convertBlock(cursor, false);
  for await (const chunk of createReadStream(path)) {
    cursor.load(chunk);
    if (block.next().done) return;
  }
}

/** Yields each chunk with the bytes that a client of this protocol version expects. A block can consist of many chunks. */
export async function* nativeBlocks(source: ByteStream, clientVersion: number): ByteStream {
  const cursor = new Cursor();
  let block: Generator<Buffer | undefined, void> | undefined;
  for await (const chunk of source) {
    cursor.load(chunk);
    const parts: Buffer[] = [];
    let from = 0;
    for (;;) {
      if (block === undefined) {
        if (cursor.isAtEnd) break;
        block = convertBlock(cursor, clientVersion >= MIN_VERSION_WITH_SERIALIZATIONS);
        parts.push(chunk.subarray(from, cursor.at), BLOCK_INFO);
        from = cursor.at;
      }
      const { done, value } = block.next();
      if (done) {
        block = undefined;
      } else if (value === undefined) {
        break;
      } else {
        parts.push(chunk.subarray(from, cursor.at), value);
        from = cursor.at;
      }
    }
    yield Buffer.concat([...parts, chunk.subarray(from)]);
  }
  if (block !== undefined) throw new Error('the result ends inside a block');
}

/** Yields bytes that must be inserted at the position of the cursor, or undefined if the cursor needs the next chunk. */
function* convertBlock(cursor: Cursor, hasSerializations: boolean): Generator<Buffer | undefined, void> {
  const columns = yield* cursor.varint();
  const rows = yield* cursor.varint();
  for (let column = 0; column < columns; column += 1) {
    yield* cursor.skip(yield* cursor.varint());
    const type = nativeType(yield* cursor.typeName());
    if (hasSerializations) yield DEFAULT_SERIALIZATION;
    if (rows === 0) continue;
    yield* type.skipState(cursor);
    yield* type.skipRows(cursor, rows);
  }
}

/** Field 1 (`is_overflows`) is 0, field 2 (`bucket_num`) is -1, and 0 ends the fields. */
const BLOCK_INFO = Buffer.from([1, 0, 2, 255, 255, 255, 255, 0]);
const DEFAULT_SERIALIZATION = Buffer.of(0);
/** `DBMS_MIN_REVISION_WITH_CUSTOM_SERIALIZATION` of ClickHouse. */
const MIN_VERSION_WITH_SERIALIZATIONS = 54_454;
