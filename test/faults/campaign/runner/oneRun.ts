/**
 * A process for one run of the campaign: whatever a run has left open ends with it. It is sent what to try, and tells
 * how far it is and what came of it.
 */
import { messageOf } from '@questlog/runtime/process/errors';
import { stackCommands } from '../../../stack/stackCommands.ts';
import { Lacking } from '../row.ts';
import { rowNamed } from '../rows.ts';
import { tryRows } from '../tryRows.ts';
import type { Told, ToTry } from './ownProcessRun.ts';

// The services end with an exit, not with a signal.
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

/** Anything but what is said is the end. */
function tell(told: Told): void {
  process.send?.(told, () => {
    if (!('said' in told)) process.exit();
  });
}
