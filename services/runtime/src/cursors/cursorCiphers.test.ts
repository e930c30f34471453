import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { anEmptyTopic, opened } from '../directory/testing/directoryBuilders.ts';
import { systemClock } from '../process/clock.ts';
import { testCursorCipher, testCursorCiphers } from './cursorCiphers.testing.ts';
import { openCursorCiphers } from './cursorCiphers.ts';

const PLACE = Buffer.from('partition 3, offset 70000');

const sealsOf = async (topic: Awaited<ReturnType<typeof anEmptyTopic>>) =>
  openCursorCiphers(await opened(topic), systemClock);

test('one ingest decrypts what another one encrypted, also if both start at once, and after a restart', async () => {
  const topic = await anEmptyTopic();
  const [a, b] = [await sealsOf(topic), await sealsOf(topic)];
  const [ofA, ofB] = await Promise.all([a.for('stream', 'p'), b.for('stream', 'p')]);
  const text = ofA.encrypt(PLACE);
  expect(ofB.decrypt(text)).toEqual(PLACE);

  const end = await topic.log.endOffsets(TOPICS.directory);
  const later = await (await sealsOf(topic)).for('stream', 'p');
  expect(later.decrypt(text)).toEqual(PLACE);
  expect(await topic.log.endOffsets(TOPICS.directory)).toEqual(end);
});

test('decrypts a text only for its use and project', async () => {
  const seals = testCursorCiphers();
  const text = (await seals.for('stream', 'mine')).encrypt(PLACE);
  expect((await seals.for('page', 'mine')).decrypt(text)).toBeUndefined();
  expect((await seals.for('stream', 'yours')).decrypt(text)).toBeUndefined();
});

test('encrypts a position to a different text each time, and rejects a text with a changed byte', async () => {
  const seal = await testCursorCipher();
  const text = seal.encrypt(PLACE);
  expect(seal.encrypt(PLACE)).not.toBe(text);
  const bytes = Buffer.from(text, 'base64url');
  for (let i = 0; i < bytes.length; i++) {
    const changed = Buffer.from(bytes);
    changed[i] = (changed[i] ?? 0) ^ 1;
    expect(seal.decrypt(changed.toString('base64url'))).toBeUndefined();
    expect(seal.decrypt(bytes.subarray(0, i).toString('base64url'))).toBeUndefined();
  }
  expect(seal.decrypt(`${text}=`)).toBeUndefined();
});
