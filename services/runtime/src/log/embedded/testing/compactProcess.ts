/** Process that compacts the log in the directory of its argument. The test of `compactLog` kills this process. */
import { writeSync } from 'node:fs';
import { compactLog } from '../compactLog.ts';

compactLog(process.argv[2] ?? '');
writeSync(1, 'compacted\n');
