/** CRC-32C (Castagnoli, RFC 3720), the checksum of Kafka record batches. Eight tables allow a step to process eight bytes. */

export function crc32c(bytes: Uint8Array, start = 0, end = bytes.length): number {
  let crc = -1;
  let at = start;
  for (; at + 8 <= end; at += 8) {
    crc ^=
      byte(bytes, at) |
      (byte(bytes, at + 1) << 8) |
      (byte(bytes, at + 2) << 16) |
      (byte(bytes, at + 3) << 24);
    crc =
      entry(T7, crc & 0xff) ^
      entry(T6, (crc >>> 8) & 0xff) ^
      entry(T5, (crc >>> 16) & 0xff) ^
      entry(T4, crc >>> 24) ^
      entry(T3, byte(bytes, at + 4)) ^
      entry(T2, byte(bytes, at + 5)) ^
      entry(T1, byte(bytes, at + 6)) ^
      entry(T0, byte(bytes, at + 7));
  }
  for (; at < end; at += 1) crc = (crc >>> 8) ^ entry(T0, (crc ^ byte(bytes, at)) & 0xff);
  return ~crc >>> 0;
}

/**
 * `byte` and `entry` are two functions instead of one generic function. Each function gets only one type of array, so that the
 * compiler can inline it.
 */
const byte = (bytes: Uint8Array, at: number): number => bytes[at] ?? 0;
const entry = (table: Int32Array, at: number): number => table[at] ?? 0;

const POLYNOMIAL = 0x82f63b78;

const T0 = Int32Array.from({ length: 256 }, (_, value) => {
  let crc = value;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  return crc;
});
const T1 = nextTable(T0);
const T2 = nextTable(T1);
const T3 = nextTable(T2);
const T4 = nextTable(T3);
const T5 = nextTable(T4);
const T6 = nextTable(T5);
const T7 = nextTable(T6);

function nextTable(table: Int32Array): Int32Array {
  return table.map((crc) => (crc >>> 8) ^ entry(T0, crc & 0xff));
}
