/** Tests that an upload address contains all data of its upload. A client without the key cannot change the address. */
import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { readUploadPath, uploadPath } from './uploadAddress.ts';
import type { UploadTarget } from './uploadKey.ts';

const NOW = Date.UTC(2026, 10, 22, 12);
const signingKey = Buffer.alloc(32, 7);
const target: UploadTarget = {
  key: {
    projectId: '5b3ff1a9-5c2e-4d5e-8f5e-2b6b3d3c1f10',
    uploadId: eventId(NOW, 0, Buffer.alloc(8, 1)),
  },
  mimeType: 'text/plain; charset="utf 8"',
  maxBytes: 3223,
  isExact: true,
  expiresAtMs: NOW + 1000,
  tokenId: '0b3ff1a9-5c2e-4d5e-8f5e-2b6b3d3c1f12',
};

test.each([true, false])(
  'reads back the data of an address, with an exact size or a limit: %s',
  (isExact) => {
    expect(read(uploadPath({ ...target, isExact }, signingKey))).toEqual({ ...target, isExact });
  },
);

test('accepts the id of an address in upper and lower case', () => {
  const path = uploadPath(target, signingKey);
  expect(read(path.replace(target.key.uploadId, target.key.uploadId.toUpperCase()))).toEqual(target);
});

test.each([
  ['project', '5b3ff1a9-5c2e-4d5e-8f5e-2b6b3d3c1f11'],
  ['type', 'text/html'],
  ['bytes', '3224'],
  ['bytes', '03223'],
  ['bytes', ''],
  ['limit', '5'],
  ['expires', String(NOW + 2000)],
  ['token', '0b3ff1a9-5c2e-4d5e-8f5e-2b6b3d3c1f13'],
  ['signature', ''],
  ['signature', 'A'.repeat(43)],
])('rejects an address whose %s was changed to "%s"', (name, value) => {
  const url = new URL(uploadPath(target, signingKey), 'http://host');
  url.searchParams.set(name, value);
  const isSame = name === 'limit' || value === '03223';
  if (isSame) expect(read(url.pathname + url.search)).toEqual(target);
  else expect(() => read(url.pathname + url.search)).toThrow('not a valid upload address');
});

test('rejects an exact size that was changed to a limit', () => {
  const path = uploadPath(target, signingKey).replace('bytes=', 'limit=');
  expect(() => read(path)).toThrow('not a valid upload address');
});

test('rejects an address for another upload', () => {
  const other = eventId(NOW, 0, Buffer.alloc(8, 2));
  const path = uploadPath(target, signingKey).replace(target.key.uploadId, other);
  expect(() => read(path)).toThrow('not a valid upload address');
});

test.each(['..', 'x', '%00', '5b3ff1a9-5c2e-4d5e-8f5e-2b6b3d3c1f10'])('rejects an invented id: %s', (id) => {
  const path = uploadPath(target, signingKey).replace(target.key.uploadId, id);
  expect(() => read(path)).toThrow('not a valid upload address');
});

test('rejects an address that was signed with another key', () => {
  expect(() => read(uploadPath(target, Buffer.alloc(32, 8)))).toThrow('not a valid upload address');
});

test('accepts an address until it expires, and rejects it from that instant', () => {
  const path = uploadPath(target, signingKey);
  expect(path).toMatch(/^\/v1\/uploads\//);
  expect(read(path, target.expiresAtMs - 1)).toEqual(target);
  expect(() => read(path, target.expiresAtMs)).toThrow('has expired');
});

test.each([
  ['expired', target.expiresAtMs, signingKey],
  ['signed with another key', NOW, Buffer.alloc(32, 8)],
])('all rejected addresses have the same code: %s', (_, nowMs, key) => {
  expect(() => read(uploadPath(target, key), nowMs)).toThrow(
    expect.objectContaining({ code: 'invalid_upload_address' }),
  );
});

function read(path: string, nowMs = NOW): UploadTarget {
  const { pathname, searchParams } = new URL(path, 'http://host');
  const id = pathname.split('/').at(-1) ?? '';
  return readUploadPath(id, Object.fromEntries(searchParams), { signingKey, nowMs });
}
