/** Limits the number of files that a reader must open to follow one record from the log's port to its row. */
import type { Log } from '@questlog/runtime/log/log';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { watchFiles } from '@questlog/runtime/process/testing/filesThatRan';
import { yieldToEventLoop } from '@questlog/runtime/process/waiting';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { openBench } from './testing/projectorBench.ts';

/**
 * Maximum number of files. Two of the files look up erased data, two files compare the first block with the stored rows, one file
 * detects restored tables, one file publishes the offset of a partition before its first block, one file is the port of traces,
 * one file is the shared cache with a budget, and four files are the codecs of `schemas` for bytes, varints, UUIDs, and Avro.
 */
const MOST_FILES = 28;
/**
 * Pattern of files that are not counted. Files below the log's port belong to an adapter, and the server of the store is a
 * separate process in production.
 */
const BEHIND_A_PORT = /\/runtime\/src\/(clickhouse\/chdb|log)\//;

test(`a record crosses at most ${MOST_FILES} files from the log's port to its row`, async () => {
  const bench = await openBench();
  onTestFinished(() => bench.close());
  await bench.append(TOPICS.events, eventsAccepted, [anEventsAccepted({ receivedAt: Date.now() })]);
  const filesThatRan = await watchFiles();
  const inserted = Promise.withResolvers<string[]>();
  const store = withMethods(bench.store, {
    insert: async (insert) => {
      await bench.store.insert(insert);
      if (insert.table === 'events') inserted.resolve(await filesThatRan());
    },
  });
  // `readTogether` calls `filesThatRan` after the start, so that files that only a start needs are not counted.
  const projector = await bench.start(store, readTogether(bench.log, 5, filesThatRan));
  onTestFinished(() => projector.stop());

  const files = (await inserted.promise).filter((path) => !BEHIND_A_PORT.test(path));
  expect(files).toContain('services/projector/src/events/writer.ts');
  expect(files.length, files.join('\n')).toBeLessThanOrEqual(MOST_FILES);
});

/** Returns a log that delivers records only after two conditions: the given number of readers wait, and `ready` was called. */
function readTogether(log: Log, readers: number, ready: () => Promise<unknown>): Log {
  const all = Promise.withResolvers<unknown>();
  let waiting = 0;
  return withMethods(log, {
    consume: (options) =>
      log.consume({
        ...options,
        process: (owned) => {
          const read: typeof owned.read = async (of) => {
            waiting += 1;
            if (waiting === readers) all.resolve(yieldToEventLoop().then(ready));
            await all.promise;
            return owned.read(of);
          };
          return options.process(withMethods(owned, { read }));
        },
      }),
  });
}
