/** Process that the test of `compactLog` kills: compacts the log in the directory of its argument. */
import { writeSync } from 'node:fs';
import { compactLog } from '../compactLog.ts';

compactLog(process.argv[2] ?? '');
writeSync(1, 'compacted\n');
