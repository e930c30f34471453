/** Supervises an engine and prints the URL of the engine. Runs until it is killed. */
import { createLogger } from '../../../process/logger.ts';
import { startEngineProcess } from '../engineProcess.ts';

const [directory = ''] = process.argv.slice(2);
const engine = await startEngineProcess({ directory, password: 'secret' }, createLogger('test'));
console.log(engine.url);
