/**
 * Converts the format Native for clients that send `client_protocol_version`. These clients expect additional bytes at the start of
 * each block and, in newer versions, of each column. The engine writes the form for clients without a version.
 */
import type { ByteStream } from '../../../process/inflate.ts';
import { Cursor, IncompleteBlock, type NativeType, nativeType } from './nativeTypes.ts';

/** Yields each block in the form that a client of this protocol version reads. */
export async function* nativeBlocks(source: ByteStream, clientVersion: number): ByteStream {
  const types = new Map<string, NativeType>();
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let neededBytes = 0;
  for await (const chunk of source) {
    pending.push(chunk);
    pendingBytes += chunk.length;
    if (pendingBytes < neededBytes) continue;
    const rest = yield* completeBlocks(Buffer.concat(pending), types, clientVersion);
    pending = [rest];
    pendingBytes = rest.length;
    // Doubles the bytes before the next attempt, because each attempt starts at the beginning of the block.
    neededBytes = 2 * rest.length;
  }
  const rest = yield* completeBlocks(Buffer.concat(pending), types, clientVersion);
  if (rest.length > 0) throw new IncompleteBlock();
}

/** Yields the converted complete blocks, and returns the remaining bytes. */
function* completeBlocks(
  bytes: Buffer,
  types: Map<string, NativeType>,
  clientVersion: number,
): Generator<Buffer, Buffer> {
  for (let rest = bytes; ; ) {
    const block = readBlock(rest, types, clientVersion >= MIN_VERSION_WITH_SERIALIZATIONS);
    if (block === undefined) return rest;
    yield block.content;
    rest = rest.subarray(block.bytes);
  }
}

/** Converts the first block. Returns undefined if the bytes do not contain the whole block. */
function readBlock(
  bytes: Buffer,
  types: Map<string, NativeType>,
  hasSerializations: boolean,
): { content: Buffer; bytes: number } | undefined {
  if (bytes.length === 0) return undefined;
  const cursor = new Cursor(bytes);
  const parts: Buffer[] = [BLOCK_INFO];
  let from = 0;
  try {
    const columns = cursor.varint();
    const rows = cursor.varint();
    for (let column = 0; column < columns; column += 1) {
      cursor.skip(cursor.varint());
      const name = cursor.text();
      const type = types.get(name) ?? nativeType(name);
      types.set(name, type);
      if (hasSerializations) {
        parts.push(bytes.subarray(from, cursor.at), DEFAULT_SERIALIZATION);
        from = cursor.at;
      }
      if (rows === 0) continue;
      type.skipState(cursor);
      type.skipRows(cursor, rows);
    }
  } catch (error) {
    if (error instanceof IncompleteBlock) return undefined;
    throw error;
  }
  parts.push(bytes.subarray(from, cursor.at));
  return { content: Buffer.concat(parts), bytes: cursor.at };
}

/** Field 1 (`is_overflows`) is 0, field 2 (`bucket_num`) is -1, and 0 ends the fields. */
const BLOCK_INFO = Buffer.from([1, 0, 2, 255, 255, 255, 255, 0]);
const DEFAULT_SERIALIZATION = Buffer.of(0);
/** `DBMS_MIN_REVISION_WITH_CUSTOM_SERIALIZATION` of ClickHouse. */
const MIN_VERSION_WITH_SERIALIZATIONS = 54_454;
