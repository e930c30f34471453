import { anEmptyTopic, opened } from '@questlog/runtime/directory/testing/directoryBuilders';
import { systemClock } from '@questlog/runtime/process/clock';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { aSeal, someSeals } from './seals.testing.ts';
import { openSeals } from './seals.ts';

const PLACE = Buffer.from('partition 3, offset 70000');

const sealsOf = async (topic: Awaited<ReturnType<typeof anEmptyTopic>>) =>
  openSeals({ directory: await opened(topic), clock: systemClock });

test('what one ingest closed another one opens, also where both begin at once, and after a restart', async () => {
  const topic = await anEmptyTopic();
  const [a, b] = [await sealsOf(topic), await sealsOf(topic)];
  const [ofA, ofB] = await Promise.all([a.of('stream', 'p'), b.of('stream', 'p')]);
  const text = ofA.close(PLACE);
  expect(ofB.open(text)).toEqual(PLACE);

  const end = await topic.log.endOffsets(TOPICS.directory);
  const later = await (await sealsOf(topic)).of('stream', 'p');
  expect(later.open(text)).toEqual(PLACE);
  expect(await topic.log.endOffsets(TOPICS.directory)).toEqual(end);
});

test('a text opens for its use and its project alone', async () => {
  const seals = someSeals();
  const text = (await seals.of('stream', 'mine')).close(PLACE);
  expect((await seals.of('page', 'mine')).open(text)).toBeUndefined();
  expect((await seals.of('stream', 'yours')).open(text)).toBeUndefined();
});

test('the same place is another text each time, and no changed byte of it opens', async () => {
  const seal = await aSeal();
  const text = seal.close(PLACE);
  expect(seal.close(PLACE)).not.toBe(text);
  const bytes = Buffer.from(text, 'base64url');
  for (let i = 0; i < bytes.length; i++) {
    const changed = Buffer.from(bytes);
    changed[i] = (changed[i] ?? 0) ^ 1;
    expect(seal.open(changed.toString('base64url'))).toBeUndefined();
    expect(seal.open(bytes.subarray(0, i).toString('base64url'))).toBeUndefined();
  }
  expect(seal.open(`${text}=`)).toBeUndefined();
});
