import { expect, test } from 'vitest';
import { redactedText, redactedWord } from './redacted.ts';

const TOKEN = `qlt_${'a1B2-_c3'.repeat(5)}`;
const same = (text: string): string => text;
const shown = (value: unknown, hide = same): unknown => JSON.parse(redactedText(value, hide) ?? 'null');

test('keeps what was asked, and hides each field that is named as a secret, however deep', () => {
  const limits = { eventsPerSecond: 5, burstSeconds: null };
  expect(shown({ name: 'Fox', limits, scopes: ['read'], tokenId: 'i', isSuspended: false })).toEqual({
    ...{ name: 'Fox', limits, scopes: ['read'], tokenId: 'i', isSuspended: false },
  });
  expect(
    shown({ token: 'x', of: [{ accessToken: 1, password: 'x', sha256: 'x', clientSecret: {} }] }),
  ).toEqual({
    token: '***',
    of: [{ accessToken: '***', password: '***', sha256: '***', clientSecret: '***' }],
  });
  expect(shown({ apiKey: 'x', private_key: 'x', apiKeyName: 'n', token: null })).toEqual({
    ...{ apiKey: '***', private_key: '***', apiKeyName: 'n', token: null },
  });
});

test('hides a token in any text, as a field’s name, and whatever else it is told of', () => {
  expect(shown({ name: `my token is ${TOKEN}, ok?`, [TOKEN]: [TOKEN] })).toEqual({
    name: 'my token is ***, ok?',
    '***': ['***'],
  });
  const hide = (text: string): string => text.replaceAll('the-admin-token', '***');
  expect(shown({ note: 'the-admin-token', 'the-admin-token': 1 }, hide)).toEqual({
    note: '***',
    '***': '***',
  });
  expect(redactedWord(`a/${TOKEN}`, hide)).toBe('a/***');
});

test('bounds what it keeps: nothing of nothing, the size of what is long, no more than twenty levels', () => {
  expect([undefined, null, ''].map((value) => redactedText(value, same))).toEqual([null, null, null]);
  expect(shown({ sql: 'ü'.repeat(40_000) })).toEqual({ leftOutBytes: 80_010 });
  const most = 'x'.repeat(64 * 1024 - '""'.length);
  expect(shown(most)).toBe(most);
  const deep: unknown = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
  expect(redactedText(deep, same)).toBe(`${'['.repeat(20)}"…"${']'.repeat(20)}`);
  const deepObject: unknown = JSON.parse(`${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`);
  expect(redactedText(deepObject, same)).toBe(`${'{"a":'.repeat(20)}"…"${'}'.repeat(20)}`);
});
