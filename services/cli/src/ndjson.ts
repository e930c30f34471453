/** Reads the lines of an NDJSON file. The reader has at most one line in memory. */

export interface Line {
  /** Line number as an editor shows it. The first line is 1, and blank lines count. */
  readonly number: number;
  readonly text: string;
}

export const MAX_LINE_BYTES = 4 * 1024 * 1024;
const LINE_FEED = 0x0a;

/**
 * Yields the lines. Only a line feed ends a line, because a JSON string may contain other line separators.
 * @throws Error if a line is too long or is not UTF-8. The message names the line.
 */
export async function* readLines(input: AsyncIterable<Buffer>): AsyncGenerator<Line> {
  let number = 1;
  let partialLine = Buffer.alloc(0);
  for await (const piece of input) {
    let from = 0;
    for (let end = piece.indexOf(LINE_FEED); end >= 0; end = piece.indexOf(LINE_FEED, from)) {
      yield lineOf(number, Buffer.concat([partialLine, piece.subarray(from, end)]));
      partialLine = Buffer.alloc(0);
      from = end + 1;
      number += 1;
    }
    partialLine = Buffer.concat([partialLine, piece.subarray(from)]);
    if (partialLine.length > MAX_LINE_BYTES)
      throw new Error(`line ${number} has more than ${MAX_LINE_BYTES} bytes`);
  }
  yield lineOf(number, partialLine);
}

function lineOf(number: number, bytes: Buffer): Line {
  try {
    return { number, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch (cause) {
    throw new Error(`line ${number} is not valid UTF-8`, { cause });
  }
}
