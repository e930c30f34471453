/**
 * Process that appends to two partitions and prints the acknowledged appends. The kill test kills this process.
 * Arguments: the directory and the number of the run.
 */
import { writeSync } from 'node:fs';
import { systemClock } from '../../../process/clock.ts';
import { openEmbeddedLog } from '../embeddedLog.ts';
import { appendOf, KILL_TOPIC, recordsOf } from './killRecords.ts';

const [directory = '', run = ''] = process.argv.slice(2);
const log = await openEmbeddedLog({ directory, clock: systemClock });
await log.ensureTopics([KILL_TOPIC]);

async function appendForEver(worker: number): Promise<never> {
  for (let count = 0; ; count += 1) {
    const append = appendOf(run, worker, count);
    const { baseOffset } = await log.append(KILL_TOPIC.name, append.partition, recordsOf(append));
    writeSync(1, `${JSON.stringify({ ...append, baseOffset })}\n`);
  }
}

await Promise.all(Array.from({ length: 8 }, (_, worker) => appendForEver(worker)));
