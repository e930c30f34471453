/** Teaches kafkajs's own consumers zstd, for the whole process: it keeps one table of codecs. The product reads by itself. */
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import kafkajs from 'kafkajs';

export function registerZstd(): void {
  kafkajs.CompressionCodecs[kafkajs.CompressionTypes.ZSTD] = () => ({
    compress: async ({ buffer }: { readonly buffer: Buffer }) => zstdCompressSync(buffer),
    decompress: async (buffer: Buffer) => zstdDecompressSync(buffer),
  });
}
