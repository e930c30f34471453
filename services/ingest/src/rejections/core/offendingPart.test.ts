/** Tests the sample of an invalid body that game developers see. The sample never contains secrets. */
import { describe, expect, test } from 'vitest';
import { BodyParts, MAX_SAMPLE_BYTES, mask, type OffendingPart, truncateUtf8 } from './offendingPart.ts';

const TOKEN = 'the-token-of-a-game';

function partAt(body: string, pointer: string, index = 0): OffendingPart {
  return new BodyParts(Buffer.from(body), TOKEN).at({ index, pointer });
}

describe('the part of a body that a problem is about', () => {
  const batch = '[{"eventType":"a"}, {"eventType":"b","sessionId": 7 ,"payload":[1,{"x":"deep"}]}]';
  test.each([
    ['a field of the element', '/sessionId', { sample: '7', eventType: 'b' }],
    ['inside arrays and objects', '/payload/1/x', { sample: '"deep"', eventType: 'b' }],
    ['the element', '', { sample: batch.slice(20, -1), eventType: 'b' }],
    [
      'the value that should contain a missing field',
      '/payload/1/y',
      { sample: '{"x":"deep"}', eventType: 'b' },
    ],
    ['the array without the index', '/payload/9', { sample: '[1,{"x":"deep"}]', eventType: 'b' }],
  ])('is %s', (_, pointer, part) => {
    expect(partAt(batch, pointer, 1)).toEqual(part);
  });

  test('is found in a body with one object, under an escaped name, and in the last of duplicate members', () => {
    expect(partAt('{"a/b~c":{"d":1e400},"a/b~c":{"d":-0}}', '/a~1b~0c/d').sample).toBe('-0');
  });

  test('is found far from the start of a long body', () => {
    expect(partAt(`{"payload":"${'x'.repeat(10_000)}","sessionId":7}`, '/sessionId').sample).toBe('7');
  });

  test('has no event type if the eventType is not a string', () => {
    expect(partAt('{"eventType":1234,"a":1}', '/a').eventType).toBe('');
  });

  test('has the event type of the report’s event that contains the part', () => {
    const report =
      '{"report":{"title":1},"events":[{"eventType":"first"},{"payload":0,"eventType":"second"}]}';
    expect(partAt(report, '/events/1/payload')).toEqual({ sample: '0', eventType: 'second' });
    expect(partAt(report, '/report/title')).toEqual({ sample: '1', eventType: '' });
  });

  test('is the text around the byte at which the JSON is invalid', () => {
    const body = Buffer.from(`${'é'.repeat(200)}"oops${'ü'.repeat(200)}`);
    const { sample, eventType } = new BodyParts(body, TOKEN).around(401);
    expect(eventType).toBe('');
    expect(sample).toContain('é"oopsü');
    expect(sample).not.toContain('�');
    expect(Buffer.byteLength(sample)).toBeLessThanOrEqual(MAX_SAMPLE_BYTES);
    expect(new BodyParts(Buffer.from('[7'), TOKEN).around(2).sample).toBe('[7');
  });
});

describe('a sample', () => {
  test.each(['x', 'é', '€', '😀'])('is truncated at the boundary of a character: %s', (character) => {
    for (let maxBytes = 0; maxBytes < 20; maxBytes++) {
      const cut = truncateUtf8(Buffer.from(character.repeat(10)), maxBytes);
      const fits = Math.min(10, Math.floor(maxBytes / Buffer.byteLength(character)));
      expect(cut).toBe(character.repeat(fits));
    }
  });

  test('has at most 256 bytes', () => {
    const { sample } = partAt(`{"payload":"${'€'.repeat(300)}"}`, '/payload');
    expect(sample).toBe(`"${'€'.repeat(85)}`);
  });

  const jwt = `eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.${'s'.repeat(400)}`;
  test.each([
    ['the request’s own token', `{"a":"x ${TOKEN} y"}`, '/a', TOKEN],
    ['a token of this service', '{"a":["qlt_0123456789abcdefXYZ"]}', '/a', '0123456789'],
    [
      'a token of this service at the end of the sample',
      `{"a":"${'x'.repeat(245)}qlt_0123456789abcdef"}`,
      '/a',
      '0123',
    ],
    ['a JWT', `{"a":"${jwt}"}`, '/a', 'sss'],
    ['a header in the body', '{"a":"Authorization: Bearer abc.def"}', '/a', 'abc'],
    ['a password after the field', '{"b":{"userPassword" : "hunter\\"2 é"}}', '/b', 'hunter'],
    ['the text after an escaped quote in a password', '{"b":{"userPassword" : "hunter\\"2 é"}}', '/b', '2 é'],
    ['a password in JSON inside a string', '{"b":"{\\"authToken\\":\\"hunter2\\"}"}', '/b', 'hunter'],
    ['an admin token', '{"a":"qla_0123456789abcdefXYZ"}', '/a', '0123456789'],
    ['a header with several spaces', '{"a":"bearer   abc.def"}', '/a', 'abc'],
    ['a field with the name of a secret', '{"apiKey":"hunter2"}', '/apiKey', 'hunter'],
    ['a value inside such a field', '{"apiKey":{"user":["hunter2"]}}', '/apiKey/user/0', 'hunter'],
    ['an object with such a field', '{"b":{"apiKey":"hunter2"}}', '/b', 'hunter'],
    [
      'a value inside an object with the name of a secret',
      '{"credentials":{"user":["hunter2"]}}',
      '/credentials/user/0',
      'hunter',
    ],
  ])('never shows %s', (_, body, pointer, secret) => {
    const { sample } = partAt(body, pointer);
    expect(sample).not.toContain(secret);
    expect(sample).toContain('***');
  });

  test('never shows the end of a token whose start is outside the sample', () => {
    const body = Buffer.from(`{"a":"${jwt}" oops`);
    expect(new BodyParts(body, TOKEN).around(body.length - 4).sample).not.toContain('sss');
  });

  test.each([
    ['spaces', ' '],
    ['the name of a secret', 'token'],
  ])('is found in time that is linear in the length of the text, also if all of it is %s', (_, part) => {
    expect(mask(`"${part.repeat(200_000)}`)).toContain(part);
  });

  test('masks only the secret, with one star per character', () => {
    expect(mask('Bearer abc, eyJot')).toBe('Bearer ***, eyJot');
  });

  test('shows the text next to a secret unchanged', () => {
    expect(partAt('{"b":{"password":"pä","level":"töp"}}', '/b').sample).toBe(
      '{"password":"***","level":"töp"}',
    );
  });

  test('never shows a token as the event type', () => {
    expect(partAt(`{"eventType":"${TOKEN}","a":1}`, '/a').eventType).toBe('*'.repeat(TOKEN.length));
  });
});
