import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { parseDescription, storageKey } from './uploadKey.ts';

test('an upload lies under the day of its id, in UTC, and its project', () => {
  const uploadId = eventId(Date.UTC(2026, 10, 22, 23, 59), 0, Buffer.alloc(8, 1));
  expect(storageKey({ projectId: 'project', uploadId })).toBe(`2026-11-22/project/${uploadId}`);
});

test('a description that no store wrote is none', () => {
  expect(() => parseDescription('{"fileName":7}')).toThrow();
});
