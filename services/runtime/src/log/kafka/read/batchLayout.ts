/** Byte positions of the fields in a Kafka record batch of format 2 (KIP-98). */

export const FORMAT = 2;

/** Position of the batch length, which counts the bytes after this field. */
export const LENGTH = 8;
export const LENGTH_END = 12;
export const LEADER_EPOCH = 12;
export const MAGIC = 16;
/** Position of the checksum, which covers the bytes after this field. */
export const CRC = 17;
export const ATTRIBUTES = 21;
export const LAST_OFFSET_DELTA = 23;
export const BASE_TIMESTAMP = 27;
export const MAX_TIMESTAMP = 35;
export const PRODUCER_ID = 43;
export const PRODUCER_EPOCH = 51;
export const BASE_SEQUENCE = 53;
export const COUNT = 57;
export const RECORDS = 61;

export const CODEC = 0x07;
export const IS_LOG_APPEND_TIME = 0x08;
export const IS_TRANSACTIONAL = 0x10;
export const IS_CONTROL = 0x20;

/** Compression codecs of Kafka. The index of a codec is its number in the batch attributes. */
export const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;
