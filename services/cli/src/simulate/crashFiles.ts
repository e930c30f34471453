/** Creates and uploads the files of a simulated crash: a log and a screenshot. */
import { crc32, deflateSync } from 'node:zlib';
import type { UploadOutput } from '@questlog/schemas/http/upload';
import { type GameEndpoint, Rejected } from '../connection.ts';
import { SeededRandom } from './core/seededRandom.ts';

const WIDTH = 240;
const HEIGHT = 135;
const HORIZON = 90;
const PNG_SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');

interface Attachment {
  readonly uploadId: string;
  readonly attachmentType: string;
  readonly fileName: string;
  readonly mimeType: string;
  readonly sizeBytes: number;
}

/** Uploads the files and returns the attachments of the report. Returns an empty list if uploads are not configured. */
export async function uploadedFiles(game: GameEndpoint, logLines: readonly string[]): Promise<Attachment[]> {
  const log = Buffer.from(`${logLines.join('\n')}\n`);
  const files = [
    {
      ...{ attachmentType: 'screenshot' as const, fileName: 'screenshot.png', mimeType: 'image/png' },
      bytes: screenshotPng(new SeededRandom(crc32(log))),
    },
    { attachmentType: 'log_bundle' as const, fileName: 'game.log', mimeType: 'text/plain', bytes: log },
  ];
  try {
    return await Promise.all(
      files.map(async ({ bytes, ...file }) => {
        const description = { ...file, sizeBytes: bytes.length };
        const response = await game.retried('createUpload', { body: description });
        const { uploadId, uploadUrl, requiredHeaders }: UploadOutput = JSON.parse(await response.text());
        const answer = await fetch(uploadUrl, { method: 'PUT', headers: requiredHeaders, body: bytes });
        if (!answer.ok) throw new Error(`${file.fileName} was rejected: ${answer.status}`);
        await answer.arrayBuffer();
        return { uploadId, ...description };
      }),
    );
  } catch (error) {
    if (error instanceof Rejected && error.code === 'uploads_not_set_up') return [];
    throw error;
  }
}

export function screenshotPng(random: SeededRandom): Buffer {
  const color = (min: number, max: number) => [0, 1, 2].map(() => random.integer(min, max));
  const [sky, ground] = [color(120, 230), color(30, 110)];
  const boxes = Array.from({ length: 9 }, () => ({
    left: random.integer(0, WIDTH - 1),
    top: random.integer(40, HEIGHT - 30),
    size: random.integer(10, 36),
    fill: color(40, 255),
  }));
  const rows = Array.from({ length: HEIGHT }, (_, y) => {
    const pixels = Array.from({ length: WIDTH }, (_, x) => {
      const box = boxes.findLast(
        ({ left, top, size }) => x >= left && x < left + size && y >= top && y < top + size,
      );
      return box?.fill ?? (y < HORIZON ? sky : ground);
    });
    // Each row of a PNG starts with the type of its filter. The type 0 means that the row has no filter.
    return [0, ...pixels.flat()];
  });
  const header = Buffer.alloc(13);
  header.writeUInt32BE(WIDTH, 0);
  header.writeUInt32BE(HEIGHT, 4);
  header.set([8, 2], 8);
  return Buffer.concat([
    PNG_SIGNATURE,
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.from(rows.flat()))),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type), data]);
  const frame = Buffer.alloc(named.length + 8);
  frame.writeUInt32BE(data.length);
  named.copy(frame, 4);
  frame.writeUInt32BE(crc32(named), named.length + 4);
  return frame;
}
