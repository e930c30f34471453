/** Tests which requests for uploads are valid. */

import { Rejected } from '@questlog/runtime/http/rejected';
import type { UploadInput } from '@questlog/schemas/http/upload';
import { expect, test } from 'vitest';
import { describedUpload, FILE_NAME_RULE, MEDIA_TYPE_RULE } from './uploadRequest.ts';

const MIB = 1024 * 1024;
const log: UploadInput = { attachmentType: 'log_bundle', fileName: 'game.log', mimeType: 'text/plain' };

test('returns the fields of the request, and an empty session as null', () => {
  const told = { ...log, sizeBytes: 3223, sessionId: '26A72A64-2F0B-4C8E-9C55-3F1D0A7BE1A4' };
  expect(describedUpload(told, false)).toEqual({ ...told, sessionId: told.sessionId.toLowerCase() });
  expect(describedUpload({ ...log, sessionId: '' }, false)).toEqual({
    ...log,
    sizeBytes: null,
    sessionId: null,
  });
});

test.each([
  ['screenshot', 'image/png', 10 * MIB],
  ['video', 'video/webm', 500 * MIB],
  ['save_state', 'application/octet-stream', 100 * MIB],
  ['log_bundle', 'application/zip', 50 * MIB],
  ['other', 'text/html', 50 * MIB],
] as const)('a %s of %s has at most %d bytes', (attachmentType, mimeType, maxBytes) => {
  const most = { ...log, attachmentType, mimeType, sizeBytes: maxBytes };
  expect(describedUpload(most, false).sizeBytes).toBe(maxBytes);
  const refusal = refusalOf({ ...most, sizeBytes: maxBytes + 1 });
  expect([refusal.code, refusal.message]).toEqual([
    'upload_too_large',
    `sizeBytes: a file of type ${attachmentType} has at most ${maxBytes} bytes`,
  ]);
  expect(refusal.errors).toMatchObject([{ pointer: '/sizeBytes', code: 'upload_too_large' }]);
});

test.each([
  'image/png',
  'IMAGE/PNG',
  'image/jpeg',
  'image/webp',
  'image/png; x="y"',
  'image/png ;x=yz',
  'image/png;  x="y z"; version=1.2',
])('a screenshot may be %s', (mimeType) => {
  const screenshot = { ...log, attachmentType: 'screenshot' as const, mimeType };
  expect(describedUpload(screenshot, false).mimeType).toBe(mimeType);
});

test.each([
  ['screenshot', 'image/svg+xml'],
  ['screenshot', 'text/html'],
  ['screenshot', 'image/png2'],
  ['video', 'image/png'],
] as const)('rejects a %s of %s because of its media type', (attachmentType, mimeType) => {
  const refusal = refusalOf({ ...log, attachmentType, mimeType });
  expect(refusal.code).toBe('unsupported_file_type');
  expect(refusal.errors).toMatchObject([{ pointer: '/mimeType', code: 'unsupported_file_type' }]);
});

test.each([
  '',
  'text',
  'text/',
  ' text/plain',
  'text/plain x;y=z',
  'text/plain; =y',
  '/plain',
  'text/plain\r\nX: y',
  'text/plain;',
  'text/pl ain',
  'a/b; c="\n"',
])('rejects an invalid media type with a 400: %j', (mimeType) => {
  expect(refusalOf({ ...log, mimeType })).toMatchObject({
    code: 'invalid_request',
    errors: [{ pointer: '/mimeType', code: 'field_invalid', detail: `mimeType ${MEDIA_TYPE_RULE}` }],
  });
});

test.each([
  '../x',
  'a/b',
  'a\\b',
  '.',
  '..',
  'a\0b',
  'a\nb',
  'a\u0085b',
  '\ud800',
  'x'.repeat(256),
  'e\u0301'.repeat(128),
])('rejects an invalid file name with a 400: %j', (fileName) => {
  expect(refusalOf({ ...log, fileName })).toMatchObject({
    code: 'invalid_request',
    errors: [{ pointer: '/fileName', code: 'field_invalid', detail: `fileName ${FILE_NAME_RULE}` }],
  });
});

test.each(['a', '.hidden', 'a..b', 'ünï 写真 🎮.png', 'x'.repeat(255), '🎮'.repeat(255)])(
  'a name may be %s',
  (fileName) => {
    expect(describedUpload({ ...log, fileName }, false).fileName).toBe(fileName);
  },
);

test('requires a size if the store needs one, and accepts a size of 0', () => {
  expect(refusalOf(log, true).errors).toMatchObject([{ pointer: '/sizeBytes', code: 'field_required' }]);
  expect(describedUpload({ ...log, sizeBytes: 0 }, true).sizeBytes).toBe(0);
});

function refusalOf(input: UploadInput, isSizeNeeded = false): Rejected {
  try {
    describedUpload(input, isSizeNeeded);
  } catch (error) {
    if (error instanceof Rejected) return error;
    throw error;
  }
  throw new Error('it was taken');
}
