import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { parseDescription, storageKey } from './uploadKey.ts';

test('the key of an upload has the day of its id, in UTC, and its project', () => {
  const uploadId = eventId(Date.UTC(2026, 10, 22, 23, 59), 0, Buffer.alloc(8, 1));
  expect(storageKey({ projectId: 'project', uploadId })).toBe(`2026-11-22/project/${uploadId}`);
});

test('rejects a description that no store wrote', () => {
  const described = {
    ...{ attachmentType: 'other', fileName: 'a.bin', mimeType: 'text/plain', sizeBytes: 7 },
    ...{ sessionId: null, expiresAt: '2026-11-22T12:00:00.000Z' },
  };
  for (const change of [{}, { sizeBytes: null }, { sessionId: 'a' }])
    expect(parseDescription(JSON.stringify({ ...described, ...change }))).toEqual({
      ...described,
      ...change,
    });
  for (const change of [{ fileName: 7 }, { sizeBytes: '7' }, { sessionId: 7 }])
    expect(() => parseDescription(JSON.stringify({ ...described, ...change }))).toThrow();
});
