/**
 * Process for one run of the campaign, so that everything that the run leaves open ends with it. Receives the run, and reports
 * progress and the result.
 */
import { messageOf } from '@questlog/runtime/process/errors';
import { stackCommands } from '../../../stack/stackCommands.ts';
import { Lacking } from '../row.ts';
import { rowNamed } from '../rows.ts';
import { tryRows } from '../tryRows.ts';
import type { Told, ToTry } from './ownProcessRun.ts';

// Exits on signals, because the exit handlers stop the services.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
process.once('disconnect', () => process.exit(1));

process.once('message', async (toTry: ToTry) => {
  const { engines, dataDir, rows, seed, isShort } = toTry;
  const own = { engines, stack: stackCommands(dataDir) };
  const say = (said: string) => tell({ said });
  try {
    tell({ outcome: await tryRows(own, rows.map(rowNamed), { seed, isShort, say }) });
  } catch (error) {
    tell(error instanceof Lacking ? { lacking: error.message } : { broke: messageOf(error) });
  }
});

/** Reports a message; every message except progress is the last one. */
function tell(told: Told): void {
  process.send?.(told, () => {
    if (!('said' in told)) process.exit();
  });
}
