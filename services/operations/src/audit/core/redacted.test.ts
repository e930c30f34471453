import { MAX_SWITCHES_PER_PROJECT, SwitchesInput } from '@questlog/schemas/http/admin';
import { Check } from 'typebox/value';
import { expect, test } from 'vitest';
import { redactedText, redactedWord } from './redacted.ts';

const TOKEN = `qlt_${'a1B2-_c3'.repeat(5)}`;
const same = (text: string): string => text;
const shown = (value: unknown, hide = same): unknown => JSON.parse(redactedText(value, hide) ?? 'null');

test('keeps the request, and hides each field with a secret name, at any depth', () => {
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

test('hides tokens in any text or field name, and further secrets', () => {
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

test('keeps at most twenty levels, and nothing of an empty value', () => {
  expect([undefined, null, ''].map((value) => redactedText(value, same))).toEqual([null, null, null]);
  const most = 'x'.repeat(64 * 1024 - '""'.length);
  expect(shown(most)).toBe(most);
  const deep: unknown = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
  expect(redactedText(deep, same)).toBe(`${'['.repeat(20)}"…"${']'.repeat(20)}`);
  const deepObject: unknown = JSON.parse(`${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`);
  expect(redactedText(deepObject, same)).toBe(`${'{"a":'.repeat(20)}"…"${'}'.repeat(20)}`);
});

test('keeps the start of large texts, lists, and objects, and the omitted size', () => {
  expect(shown({ sql: `${'ü'.repeat(99)}🦊${'ü'.repeat(40_000)}`, ['n'.repeat(101)]: 1 })).toEqual({
    sql: `${'ü'.repeat(99)}\ufffd… and 40001 more`,
    [`${'n'.repeat(100)}… and 1 more`]: 1,
  });
  const long = Array.from({ length: 30_000 }, (_, i) => i);
  const first = long.slice(0, 32);
  expect(shown([{ long }, null])).toEqual([{ long: [...first, '… and 29968 more'] }, null]);
  const fields = (names: readonly number[]) => names.map((n) => [`f${n}`, n]);
  expect(shown(Object.fromEntries(fields(long)))).toEqual(
    Object.fromEntries([...fields(first), ['…', '… and 29968 more']]),
  );
});

test('hides a token before it truncates its text', () => {
  const text = `${'x'.repeat(90)}${TOKEN}${'.'.repeat(64 * 1024)}`;
  expect(shown(text)).toBe(`${'x'.repeat(90)}***.......… and 65529 more`);
});

test('keeps only the size of a value that is still too large', () => {
  const row = Array.from({ length: 32 }, () => 'x'.repeat(200));
  const rows = (last: number) => [
    ...Array.from({ length: 17 }, () => row),
    [...Array.from({ length: 7 }, () => 'y'.repeat(100)), 'y'.repeat(last)],
  ];
  expect(Buffer.byteLength(redactedText(rows(39), same) ?? '')).toBe(64 * 1024);
  expect(shown(rows(40))).toEqual({ leftOutBytes: Buffer.byteLength(JSON.stringify(rows(40))) });
});

test('keeps the action of every switch of a project, with the longest fields', () => {
  // A control character takes six bytes as JSON, which is the maximum.
  const switches = Array.from({ length: MAX_SWITCHES_PER_PROJECT }, (_, i) => ({
    eventType: `${i} `.padEnd(1000, '\u0001'),
    buildId: '019be0a5-7b3c-7d2e-9f41-0242ac120002',
    playerShare: 0.1234567890123456,
    action: 'sample',
    sampleRate: 1.234567890123456e-300,
    until: '2099-12-31T23:59:59.999999+00:00',
    reason: '\u0001'.repeat(500),
  }));
  expect(Check(SwitchesInput, switches)).toBe(true);
  const project = { id: 'i', name: '\u0001'.repeat(1000), switches };
  expect(shown(switches)).toMatchObject(
    switches.map(({ eventType, reason, ...same }, i) => ({
      ...same,
      eventType: expect.stringMatching(new RegExp(`^${i} `)),
    })),
  );
  expect(shown(project)).toMatchObject({ switches: shown(switches) });
});
