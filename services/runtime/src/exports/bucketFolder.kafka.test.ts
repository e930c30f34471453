/** Tests an export to a bucket of a real S3 server. */
import { hash } from 'node:crypto';
import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { engines } from '../log/kafka/testing/engines.ts';
import { failIfRequired } from '../process/testing/required.ts';
import { aBucket, keysIn } from '../uploads/bucket.testing.ts';
import { openBucketFolder } from './bucketFolder.ts';
import { MeasuredContent } from './exportFolder.ts';

const { signal } = new AbortController();
const FACTS = { rows: 2, state: '2.0' };

function content(...pieces: readonly (string | Error)[]): MeasuredContent {
  const read = function* () {
    for (const piece of pieces) {
      if (piece instanceof Error) throw piece;
      yield Buffer.from(piece);
    }
  };
  return new MeasuredContent(Readable.from(read()), signal);
}

test('an export to a bucket stores only complete files with their facts, and finds the files again', async (context) => {
  if (engines?.s3 === undefined) {
    const lack = 'the S3 server of the local stack, which Go builds, is missing';
    failIfRequired('s3', lack);
    return context.skip(lack);
  }
  const options = await aBucket(engines.s3);
  const folder = await openBucketFolder(options, 'exported/events/a');
  expect(folder.path).toBe(`s3://${options.bucket}/exported/events/a`);
  expect([await folder.isEmpty(), await folder.read('plan.json')]).toEqual([true, undefined]);
  await folder.write('plan.json', '{}');
  expect([await folder.isEmpty(), await folder.read('plan.json')]).toEqual([false, '{}']);

  await expect(folder.store('day/1.csv', content('1\n', new Error('cut')), FACTS)).rejects.toThrow('cut');
  expect(await folder.find('day/1.csv')).toBeUndefined();
  const stored = await folder.store('day/1.csv', content('1\n', '2\n'), FACTS);
  expect(stored).toEqual({ ...FACTS, bytes: 4, sha256: hash('sha256', '1\n2\n') });
  expect(await folder.find('day/1.csv')).toEqual(stored);
  expect(await folder.read('day/1.csv')).toBe('1\n2\n');

  await folder.finish('plan.json');
  expect(await keysIn(options)).toEqual(['exported/events/a/day/1.csv']);
});
