/** Tests that every event of a file is sent, and that an error names the number of an invalid line. */
import { expect, test } from 'vitest';
import { MAX_LINE_BYTES, readLines } from './ndjson.ts';
import { forTerminal, jsonText } from './print.ts';
import { batches } from './send.ts';

const EVENT = '{"sessionId":"s","eventType":"x"}';

async function batchesOf(text: string | Buffer, pieceBytes = 7): Promise<string[][]> {
  const whole = Buffer.from(text);
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let at = 0; at < whole.length; at += pieceBytes) yield whole.subarray(at, at + pieceBytes);
  }
  const requests: string[][] = [];
  for await (const lines of batches(readLines(pieces()), undefined)) requests.push(lines);
  return requests;
}

test.each([
  ['no last line feed', `${EVENT}\n${EVENT}`],
  ['CRLF and blank lines', `${EVENT}\r\n\r\n${EVENT}\r\n`],
  ['a byte order mark', `\uFEFF${EVENT}\n${EVENT}\n`],
])('reads all events of a file with %s', async (_, text) => {
  expect((await batchesOf(text)).flat().map((line) => line.trim())).toEqual([EVENT, EVENT]);
});

test('does not split a string at a Unicode line separator', async () => {
  const event = '{"sessionId":"s","eventType":"a\u2028b\u2029ü\u0085"}';
  expect(await batchesOf(`${event}\n`)).toEqual([[event]]);
});

test('sends large events in several requests', async () => {
  const large = JSON.stringify({ sessionId: 's', eventType: 'x', payload: { x: 'x'.repeat(200_000) } });
  const requests = await batchesOf(`${large}\n`.repeat(50), 1 << 20);
  expect(requests.flat()).toHaveLength(50);
  for (const lines of requests) expect(lines.join(',').length).toBeLessThan(8 * 1024 * 1024);
});

test.each([
  ['no JSON', `${EVENT}\n\n\nnot json\n`, 'line 4 is not a JSON object'],
  ['not UTF-8', Buffer.from([0x0a, 0x22, 0xff, 0x22]), 'line 2 is not valid UTF-8'],
  ['endless', Buffer.alloc(MAX_LINE_BYTES + 1, 'x'), `line 1 has more than ${MAX_LINE_BYTES} bytes`],
])('names an invalid line: %s', async (_, text, message) => {
  await expect(batchesOf(text, 1 << 20)).rejects.toThrow(message);
});

test('replaces characters that control a terminal or change the text direction', () => {
  expect(forTerminal('a\u001b[2J\u009b31m\u202eb\u2066c\u2028\r\n\td')).toBe(
    'a\uFFFD[2J\uFFFD31m\uFFFDb\uFFFDc\uFFFD\uFFFD\n\td',
  );
});

test('replaces invisible characters', () => {
  expect(forTerminal('ad\u200bm\u200di\ufeffn\u{e0041} 日本 é')).toBe('ad\uFFFDm\uFFFDi\uFFFDn\uFFFD 日本 é');
});

test('escapes such characters in JSON without a change of the value', () => {
  const text = '\u007f\u009b31m\u202e\u2028\u200b\u{e0041} 日本';
  const written = jsonText({ text });
  expect(written).toBe('{\n  "text": "\\u007f\\u009b31m\\u202e\\u2028\\u200b\\udb40\\udc41 日本"\n}');
  expect(JSON.parse(written)).toEqual({ text });
});
