/**
 * Process for the runs of one deployment, so that everything that the runs leave open ends with the process. Receives the runs,
 * and reports progress and outcomes.
 */
import { messageOf } from '@questlog/runtime/process/errors';
import { stackCommands } from '../../../stack/stackCommands.ts';
import { Lacking } from '../row.ts';
import { rowNamed } from '../rows.ts';
import { tryRuns } from '../tryRows.ts';
import type { Told, ToTry } from './ownProcessRun.ts';

// Exits on signals, because the exit handlers stop the services.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
process.once('disconnect', () => process.exit(1));

process.once('message', async (toTry: ToTry) => {
  const last = await tryAll(toTry).catch(
    (error: unknown): Told =>
      error instanceof Lacking ? { lacking: error.message } : { broke: messageOf(error) },
  );
  process.send?.(last, () => process.exit());
});

async function tryAll({ engines, dataDir, runs, isShort }: ToTry): Promise<Told> {
  const tell = (told: Told) => process.send?.(told);
  await tryRuns(
    { engines, stack: stackCommands(dataDir) },
    runs.map(({ rows, seed }) => ({ rows: rows.map(rowNamed), seed })),
    { isShort, say: (said) => tell({ said }), report: (outcome) => tell({ outcome }) },
  );
  return { said: 'the deployment is removed' };
}
