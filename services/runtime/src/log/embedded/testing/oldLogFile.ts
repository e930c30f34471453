/** Creates a log file like the versions of Questlog that did not use `auto_vacuum` and `secure_delete`. */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { openDatabase } from '../database.ts';
import { embeddedLogOn } from '../embeddedLog.ts';
import { HOUR_MS, ManualClock, topicSpec } from './testLog.ts';

export const MARKER = 'marker-of-an-erased-player';
export const OLD_TOPIC = 'old';

/**
 * Creates a log in which half of the records have expired, but their bytes are still in the file. Returns the values of the
 * records that have not expired.
 */
export async function makeOldLogFile(directory: string, records: number): Promise<string[]> {
  mkdirSync(directory, { recursive: true });
  const empty = new DatabaseSync(join(directory, 'questlog.db'));
  empty.exec('PRAGMA page_size = 8192; PRAGMA auto_vacuum = NONE; CREATE TABLE t (id INTEGER); DROP TABLE t');
  empty.close();
  const database = openDatabase(directory);
  database.sqlite.exec('PRAGMA secure_delete = OFF');
  const clock = new ManualClock();
  const log = embeddedLogOn(database, { directory, clock });
  await log.ensureTopics([topicSpec(OLD_TOPIC)]);
  const append = async (text: string): Promise<string[]> => {
    const values = Array.from({ length: records / 2 }, (_, index) =>
      `${text} ${index} `.repeat(1 + (index % 200)),
    );
    for (let at = 0; at < values.length; at += 100) {
      const some = values.slice(at, at + 100).map((value) => ({ key: text, value: Buffer.from(value) }));
      await log.append(OLD_TOPIC, 0, some);
    }
    return values;
  };
  await append(MARKER);
  clock.nowMs += HOUR_MS + 1;
  const kept = await append('kept');
  await log.maintain();
  await log.close();
  return kept;
}

export function occurrencesIn(directory: string): number {
  const counts = readdirSync(directory).map((name) => {
    const bytes = readFileSync(join(directory, name));
    let count = 0;
    for (let at = bytes.indexOf(MARKER); at !== -1; at = bytes.indexOf(MARKER, at + 1)) count += 1;
    return count;
  });
  return counts.reduce((sum, count) => sum + count, 0);
}
