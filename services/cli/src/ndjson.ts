/** The lines of a file of events (NDJSON), of which no line can make the reader hold the whole file. */

export interface Line {
  /** From 1, blank ones counted too: where an editor shows it. */
  readonly number: number;
  readonly text: string;
}

/** Far more than an event takes. */
export const MAX_LINE_BYTES = 4 * 1024 * 1024;
const LINE_FEED = 0x0a;

/**
 * Lines end at a line feed only: other marks that end a line for people may stand inside a JSON string.
 * @throws Error naming a line that is too long or not UTF-8.
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
    // Leaves out the mark (BOM) that some editors put before the first line.
    return { number, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch (cause) {
    throw new Error(`line ${number} is not valid UTF-8`, { cause });
  }
}
