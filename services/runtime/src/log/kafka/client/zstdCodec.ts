/** Teaches kafkajs zstd by Node's own; kafkajs computes its checksums in JavaScript, over what compression has left. */
import { promisify } from 'node:util';
import { constants, zstdCompress, zstdDecompress } from 'node:zlib';
import kafkajs from 'kafkajs';

/** For the whole process, since kafkajs keeps one table of codecs. */
export function registerZstd(): void {
  kafkajs.CompressionCodecs[kafkajs.CompressionTypes.ZSTD] = () => ({
    compress: ({ buffer }: { readonly buffer: Buffer }) => compress(buffer, COMPRESSION),
    decompress: (buffer: Buffer) => decompress(buffer, { maxOutputLength: MAX_INFLATED_BYTES }),
  });
}

/** Level 1 of zstd: JSON shrinks to about a sixth, and higher levels cost more than they save. */
const COMPRESSION = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/** Of one batch; twenty times what a topic of Questlog takes, in case others wrote it. */
const MAX_INFLATED_BYTES = 256 * 1024 * 1024;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);
