/** Tests unknown fields. They are ignored and listed in the response. With `Prefer: handling=strict`, the request is rejected. */
import { beforeAll, describe, expect, test } from 'vitest';
import { aKey, anEvent, type TestProject } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
const STRICT = { Prefer: 'respond-async, handling=strict' };
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

describe('unknown fields of events', () => {
  test('are ignored and listed once each in the response', async () => {
    const batch = [
      anEvent({ userId: 1 }),
      anEvent(),
      anEvent({ userId: 2, evenType: 'x', payload: { userId: 3 } }),
    ];
    const answer = await game.post(batch);

    expect(answer.status).toBe(201);
    expect(answer.json()).toHaveLength(3);
    expect(ignoredBy(answer)).toBe('"/userId", "/evenType"');
  });

  test('are listed in a lenient response and in a replay', async () => {
    const key = { 'Idempotency-Key': aKey() };
    const answers = [
      await game.post([anEvent({ userId: 1 }), 7], { Prefer: 'handling=lenient' }),
      await game.post(anEvent({ userId: 1 }), key),
      await game.post(anEvent({ userId: 1 }), key),
    ];

    expect(answers.map(({ status }) => status)).toEqual([207, 201, 200]);
    expect(answers.map(ignoredBy)).toEqual(['"/userId"', '"/userId"', '"/userId"']);
  });

  test('get a 400 with handling=strict that lists each with the probable field, and store nothing', async () => {
    const own = await shared.aProject({ revision: 'B' });
    const answer = await own.post([anEvent(), anEvent({ sessionID: own.sessionId, userId: 1 })], STRICT);

    expect([answer.status, answer.json().code]).toEqual([400, 'invalid_elements']);
    expect(answer.json().errors).toEqual([
      {
        index: 1,
        pointer: '/sessionID',
        code: 'field_unknown',
        detail: 'there is no field sessionID; is sessionId meant?',
      },
      { index: 1, pointer: '/userId', code: 'field_unknown', detail: 'there is no field userId' },
    ]);
    expect((await own.get('/v1/quota')).json().used).toBe(0);
  });

  test('are listed with other problems with handling=strict', async () => {
    const answer = await game.post({ evenType: 'x' }, STRICT);
    const errors: { pointer: string; code: string }[] = answer.json().errors;

    expect(errors.map(({ pointer, code }) => `${pointer} ${code}`).toSorted()).toEqual([
      '/evenType field_unknown',
      '/eventType field_required',
    ]);
  });

  test('do not affect a strict request without unknown fields', async () => {
    const escaped = '{"event\\u0054ype":"x","payload":{"any":1},"sessionId":null}';
    const answer = await game.post(escaped, STRICT);

    expect(answer.status).toBe(201);
    expect(answer.headers.get('preference-applied')).toBe('handling=strict');
    expect(ignoredBy(answer)).toBeNull();
  });
});

describe('unknown fields outside events', () => {
  const upload = { attachmentType: 'log_bundle', fileName: 'game.log', mimeType: 'text/plain' };
  const build = { version: '1.4.2', platform: 'Web', gitCommmit: 'x' };
  const report = {
    report: { title: 'Stuck', sevrity: 'high' },
    events: [{ eventType: 'x', sesionId: null }],
  };
  const cases: [string, object, Record<string, string | undefined>][] = [
    ['/v1/ingest/sessions', { build, user: 'x' }, { '/build/gitCommmit': 'gitCommit', '/user': undefined }],
    [
      '/v1/ingest/reports',
      { ...report, fingerprint: 'x' },
      { '/report/sevrity': 'severity', '/fingerprint': undefined, '/events/0/sesionId': 'sessionId' },
    ],
    ['/v1/ingest/uploads', { ...upload, sizebytes: 1 }, { '/sizebytes': 'sizeBytes' }],
  ];

  test.each(cases)('are ignored and listed: %s', async (path, body, fields) => {
    const answer = await game.request('POST', path, { body });

    expect(answer.status).toBe(201);
    expect(ignoredBy(answer)).toBe(
      Object.keys(fields)
        .map((pointer) => `"${pointer}"`)
        .join(', '),
    );
  });

  test.each(cases)(
    'are a 400 with handling=strict, which names what was meant: %s',
    async (path, body, fields) => {
      const answer = await game.request('POST', path, { body, headers: STRICT });
      const errors: { pointer: string; code: string; detail: string }[] = answer.json().errors;

      expect([answer.status, answer.json().code]).toEqual([400, 'invalid_request']);
      expect(errors.map(({ pointer }) => pointer)).toEqual(Object.keys(fields));
      for (const { pointer, code, detail } of errors) {
        expect(code).toBe('field_unknown');
        if (fields[pointer] === undefined) expect(detail).not.toContain('meant');
        else expect(detail).toContain(`is ${fields[pointer]} meant?`);
      }
    },
  );

  test.each(cases)('do not affect a strict request without unknown fields: %s', async (path) => {
    const body = path.endsWith('uploads')
      ? upload
      : path.endsWith('reports')
        ? { report: { title: 'x' } }
        : {};
    const answer = await game.request('POST', path, { body, headers: STRICT });

    expect([answer.status, answer.headers.get('preference-applied')]).toEqual([201, 'handling=strict']);
  });
});

function ignoredBy({ headers }: Answer): string | null {
  return headers.get('questlog-ignored-fields');
}
