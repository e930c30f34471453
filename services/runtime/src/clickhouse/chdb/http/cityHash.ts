/**
 * Computes CityHash128 of version 1.0.2. ClickHouse uses this version as the checksum of its compressed blocks. Later versions
 * of CityHash return other values.
 */

/** Returns the 16 bytes of the hash. `bytes` must have at least 8 bytes. */
export function cityHash128(bytes: Uint8Array): Buffer {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const fetch = (at: number): bigint => view.getBigUint64(at, true);
  const length = bytes.length;
  const [low, high] =
    length >= 16
      ? hashWithSeed(new DataView(bytes.buffer, bytes.byteOffset + 16, length - 16), fetch(0) ^ K3, fetch(8))
      : hashWithSeed(EMPTY, fetch(0) ^ u64(BigInt(length) * K0), fetch(length - 8) ^ K1);
  const hash = Buffer.allocUnsafe(16);
  hash.writeBigUInt64LE(low, 0);
  hash.writeBigUInt64LE(high, 8);
  return hash;
}

const K0 = 0xc3a5c85c97cb3127n;
const K1 = 0xb492b66fbe98f273n;
const K2 = 0x9ae16a3b2f90404fn;
const K3 = 0xc949d7c7509e6557n;
const K_MUL = 0x9ddfea08eb382d69n;
const EMPTY = new DataView(new ArrayBuffer(0));

type Pair = readonly [low: bigint, high: bigint];

function hashWithSeed(view: DataView, low: bigint, high: bigint): Pair {
  return view.byteLength < 128 ? hashShort(view, low, high) : hashLong(view, low, high);
}

function hashShort(view: DataView, low: bigint, high: bigint): Pair {
  const length = view.byteLength;
  const fetch = (at: number): bigint => view.getBigUint64(at, true);
  let [a, b, c, d] = [low, high, 0n, 0n];
  if (length <= 16) {
    a = u64(shiftMix(u64(a * K1)) * K1);
    c = u64(b * K1 + hashUpTo16(view));
    d = shiftMix(u64(a + (length >= 8 ? fetch(0) : c)));
  } else {
    c = hash16(u64(fetch(length - 8) + K1), a);
    d = hash16(u64(b + BigInt(length)), u64(c + fetch(length - 16)));
    a = u64(a + d);
    for (let at = 0; at < length - 16; at += 16) {
      a = u64((a ^ u64(shiftMix(u64(fetch(at) * K1)) * K1)) * K1);
      b ^= a;
      c = u64((c ^ u64(shiftMix(u64(fetch(at + 8) * K1)) * K1)) * K1);
      d ^= c;
    }
  }
  a = hash16(a, c);
  b = hash16(d, b);
  return [a ^ b, hash16(b, a)];
}

function hashUpTo16(view: DataView): bigint {
  const length = view.byteLength;
  const size = BigInt(length);
  if (length > 8) {
    const last = view.getBigUint64(length - 8, true);
    return hash16(view.getBigUint64(0, true), rotate(u64(last + size), size)) ^ last;
  }
  if (length >= 4) {
    const first = BigInt(view.getUint32(0, true));
    return hash16(u64(size + (first << 3n)), BigInt(view.getUint32(length - 4, true)));
  }
  if (length === 0) return K2;
  const [first, middle, last] = [view.getUint8(0), view.getUint8(length >> 1), view.getUint8(length - 1)];
  const y = BigInt(first + (middle << 8));
  const z = BigInt(length + (last << 2));
  return u64(shiftMix(u64(y * K2) ^ u64(z * K3)) * K2);
}

/**
 * Variables of `hashLong`. V8 computes with the elements of a `BigUint64Array` as 64-bit integers, which is ten times faster than
 * with other BigInts (measured).
 */
type Variables = Record<(typeof NAMES)[number], bigint>;
const NAMES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10] as const;
const [X, Y, Z, V1, V2, W1, W2, A, B, C, T] = NAMES;

function hashLong(view: DataView, low: bigint, high: bigint): Pair {
  const length = view.byteLength;
  const fetch = (at: number): bigint => view.getBigUint64(at, true);
  const r: Variables = new BigUint64Array(NAMES.length) as unknown as Variables;
  r[X] = low;
  r[Y] = high;
  r[Z] = BigInt(length) * K1;
  r[V1] = u64(rotate(high ^ K1, 49n) * K1) + fetch(0);
  r[V2] = u64(rotate(r[V1], 42n) * K1) + fetch(8);
  r[W1] = u64(rotate(u64(high + r[Z]), 35n) * K1) + low;
  r[W2] = rotate(u64(low + fetch(88)), 53n) * K1;
  const rest = length % 128;
  mixChunks(view, r, length - rest);
  r[Y] = r[Y] + u64(rotate(r[W1], 37n) * K0) + r[Z];
  r[X] = r[X] + u64(rotate(u64(r[V1] + r[Z]), 49n) * K0);
  for (let done = 32; done < rest + 32; done += 32) {
    const at = length - done;
    r[Y] = u64(rotate(u64(r[Y] - r[X]), 42n) * K0) + r[V2];
    r[W1] = r[W1] + fetch(at + 16);
    r[X] = u64(rotate(r[X], 49n) * K0) + r[W1];
    r[W1] = r[W1] + r[V1];
    r[A] = r[V1];
    r[B] = r[V2];
    mixHalf(view, at, r);
    r[V1] = r[A];
    r[V2] = r[B];
  }
  const x = hash16(r[X], r[V1]);
  const y = hash16(r[Y], r[W1]);
  return [u64(hash16(u64(x + r[V2]), r[W2]) + y), hash16(u64(x + r[W2]), u64(y + r[V2]))];
}

/** Mixes all chunks of 64 bytes before `end` into the variables. */
function mixChunks(view: DataView, r: Variables, end: number): void {
  for (let at = 0; at < end; at += 64) {
    r[T] = r[X] + r[Y] + r[V1] + view.getBigUint64(at + 16, true);
    r[X] = u64(u64(r[T] >> 37n) | u64(r[T] << 27n)) * K1;
    r[T] = r[Y] + r[V2] + view.getBigUint64(at + 48, true);
    r[Y] = u64(u64(r[T] >> 42n) | u64(r[T] << 22n)) * K1;
    r[X] = r[X] ^ r[W2];
    r[Y] = r[Y] ^ r[V1];
    r[T] = r[Z] ^ r[W1];
    r[Z] = u64(r[T] >> 33n) | u64(r[T] << 31n);
    r[A] = r[V2] * K1;
    r[B] = r[X] + r[W1];
    mixHalf(view, at, r);
    r[V1] = r[A];
    r[V2] = r[B];
    r[A] = r[Z] + r[W2];
    r[B] = r[Y];
    mixHalf(view, at + 32, r);
    r[W1] = r[A];
    r[W2] = r[B];
    r[T] = r[Z];
    r[Z] = r[X];
    r[X] = r[T];
  }
}

/** Mixes 32 bytes into the variables A and B. */
function mixHalf(view: DataView, at: number, r: Variables): void {
  r[A] = r[A] + view.getBigUint64(at, true);
  r[C] = r[A];
  r[T] = r[B] + r[A] + view.getBigUint64(at + 24, true);
  r[B] = u64(r[T] >> 21n) | u64(r[T] << 43n);
  r[A] = r[A] + view.getBigUint64(at + 8, true) + view.getBigUint64(at + 16, true);
  r[B] = r[B] + u64(u64(r[A] >> 44n) | u64(r[A] << 20n));
  r[A] = r[A] + view.getBigUint64(at + 24, true);
  r[B] = r[B] + r[C];
}

function hash16(low: bigint, high: bigint): bigint {
  const a = shiftMix(u64((low ^ high) * K_MUL));
  return u64(shiftMix(u64((high ^ a) * K_MUL)) * K_MUL);
}

function shiftMix(value: bigint): bigint {
  return value ^ (value >> 47n);
}

function rotate(value: bigint, by: bigint): bigint {
  return u64((value >> by) | (value << (64n - by)));
}

function u64(value: bigint): bigint {
  return BigInt.asUintN(64, value);
}
