import { randomUUID } from 'node:crypto';
import { aLinkedEvent } from '@questlog/schemas/fixtures/builders';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { heartbeatText, linkedEventText, openingText } from './linkedEventText.ts';

const OPTIONS = { positionId: 'tOkEn', showsOverQuota: true };

/** Reads messages as the standard requires. Splits lines, joins `data` lines with LF, and removes one space after the colon. */
function received(sent: Buffer): { event: string; id: string; data: Buffer; dispatched: number } {
  const lines = sent.toString('latin1').split(/\r\n|\r|\n/);
  const valuesOf = (name: string): string[] =>
    lines
      .filter((line) => line.startsWith(`${name}:`))
      .map((line) => line.slice(name.length + 1).replace(/^ /, ''));
  const data = valuesOf('data');
  const ends = lines.flatMap((line, i) => (line === '' && i < lines.length - 1 ? [i] : []));
  return {
    event: valuesOf('event').join(),
    id: valuesOf('id').join(),
    data: Buffer.from(data.join('\n'), 'latin1'),
    dispatched: data.length === 0 ? 0 : ends.length,
  };
}

function payloadIn(data: Buffer): Buffer {
  const begin = data.indexOf('"payload":') + '"payload":'.length;
  return data.subarray(begin, data.lastIndexOf(',"overQuota"'));
}

test('a linked event is one message with its kind, its position id, the link, and the event', () => {
  const link = aLinkedEvent({
    kind: 'unlinked',
    version: 3,
    source: 'named',
    event: { eventType: 'a "boss"\n', payload: Buffer.from('{"level":3}'), overQuota: true },
  });
  const message = received(linkedEventText(link, OPTIONS));

  expect(message).toMatchObject({ event: 'unlinked', id: 'tOkEn', dispatched: 1 });
  expect(JSON.parse(message.data.toString())).toEqual({
    linkId: link.linkId,
    kind: 'unlinked',
    version: 3,
    reportId: link.reportId,
    source: 'named',
    changedAt: '2026-11-21T12:00:00.000Z',
    event: {
      id: link.event.id,
      sessionId: null,
      buildId: null,
      eventType: 'a "boss"\n',
      occurredAt: '2026-11-21T12:00:00.000Z',
      receivedAt: '2026-11-21T12:00:00.000Z',
      payload: { level: 3 },
      overQuota: true,
    },
  });
});

test('names the session and the build that the event has', () => {
  const named = { sessionId: randomUUID(), buildId: randomUUID() };
  const message = received(linkedEventText(aLinkedEvent({ event: named }), OPTIONS));
  expect(JSON.parse(message.data.toString()).event).toMatchObject(named);
});

test('shows the sequence that the event was sent with', () => {
  const link = aLinkedEvent({ event: { sequence: 9_007_199_254_740_991 } });
  const { event } = JSON.parse(received(linkedEventText(link, OPTIONS)).data.toString());
  expect(event.sequence).toBe(9_007_199_254_740_991);
});

test('revision B shows no overQuota', () => {
  const sent = linkedEventText(aLinkedEvent(), { ...OPTIONS, showsOverQuota: false });
  expect(JSON.parse(received(sent).data.toString()).event).not.toHaveProperty('overQuota');
});

test.each([
  ['a 64-bit integer, -0 and 1e400', '{"n":18446744073709551615,"z":-0,"x":1e400,"f":1.0}'],
  ['a duplicate key', '{"a":1,"a":2}'],
  ['non-ASCII text and Unicode line separators', '{"é":"\u2028\u2029\u0085😀"}'],
  ['line feeds, empty lines and indentation', '{\n\n  "a": 1,\n "b":\n2 }'],
  ['text that looks like a field of the stream', '{\n"data: x":\n"event: y"\n}'],
  ['escaped line ends', '{"a":"\\r\\n"}'],
])('a payload with %s arrives byte for byte', (_, payload) => {
  const sent = linkedEventText(aLinkedEvent({ event: { payload: Buffer.from(payload) } }), OPTIONS);
  expect(payloadIn(received(sent).data).toString()).toBe(payload);
});

test('a CR or CRLF between the tokens of a payload arrives as LF, and all other bytes are unchanged', () => {
  const payload = '{\r"a":\r\n1,\r\r\n\n"b"\r:"\\r"}\r';
  const sent = linkedEventText(aLinkedEvent({ event: { payload: Buffer.from(payload) } }), OPTIONS);
  expect(payloadIn(received(sent).data).toString()).toBe(payload.replace(/\r\n?/g, '\n'));
});

test('no payload ends its message early or starts another field', () => {
  const hostile = fc.array(fc.constantFrom('\r', '\n', ' ', ':', 'id: x', 'data: ', '"', 'a', '\0'), {
    maxLength: 40,
  });
  fc.assert(
    fc.property(hostile, (pieces) => {
      const payload = pieces.join('');
      const sent = linkedEventText(aLinkedEvent({ event: { payload: Buffer.from(payload) } }), OPTIONS);
      const message = received(sent);
      expect(message).toMatchObject({ event: 'linked', id: 'tOkEn', dispatched: 1 });
      expect(payloadIn(message.data).toString()).toBe(payload.replace(/\r\n?/g, '\n'));
    }),
  );
});

test('the opening and a heartbeat change the position without a message', () => {
  for (const text of [openingText('here', 1000), heartbeatText('here')]) {
    expect(received(Buffer.from(text))).toMatchObject({ id: 'here', dispatched: 0 });
    expect(text.endsWith('\n\n')).toBe(true);
  }
  expect(openingText('here', 1000)).toContain('retry: 1000\n');
});
