/**
 * Measures what an event costs in each process of a deployment: CPU, memory, bytes in Kafka, and bytes in ClickHouse. The
 * requests are like those of `@questlog/client`.
 */
import { eventually } from '../../e2e/builders.ts';
import { queryOn } from '../clickhouseQuery.ts';
import type { BenchStack } from '../path/benchStack.ts';
import { measurePeer, type PathBench } from '../path/measurePath.ts';
import type { RunFacts } from '../path/pathFigures.ts';
import type { KindShape } from '../path/pathOptions.ts';
import { OWN_TREE, type QuestlogPeer, startQuestlog } from '../path/questlogPeer.ts';
import { cpuMicrosOf, memoryOf } from '../processFigures.ts';

export type SizedProcess = 'ingest' | 'linker' | 'projector' | 'kafka' | 'clickhouse';

export interface SizingResult {
  readonly run: RunFacts;
  readonly shape: KindShape;
  /** Events of the measured load. */
  readonly events: number;
  readonly eventsPerSecond: number;
  readonly cpuMicrosPerEvent: Readonly<Record<SizedProcess, number>>;
  /** Peak of the resident set. */
  readonly peakBytes: Readonly<Record<SizedProcess, number>>;
  /** Bytes in the topics of one broker. */
  readonly logBytesPerEvent: number;
  /** Bytes of all tables after merges. */
  readonly clickhouseBytesPerEvent: number;
}

const NAME = 'sizing';
const SHAPE: KindShape = { events: 20, connections: 64, kind: 'client' };
const CAUGHT_UP_WITHIN_MS = 180_000;

export async function measureSizing(bench: PathBench, run: RunFacts): Promise<SizingResult> {
  const { stack, say } = bench;
  say('the processes start');
  const questlog = await startQuestlog(stack, { root: OWN_TREE, name: NAME });
  const pids: Record<SizedProcess, number> = {
    ingest: questlog.pid,
    linker: (await questlog.start('linker')).pid,
    projector: (await questlog.start('projector')).pid,
    kafka: stack.brokerPid,
    clickhouse: stack.clickhousePid,
  };
  say('the processes warm up');
  await measurePeer(bench, questlog, questlog, SHAPE);
  const before = await sample(stack, questlog, pids);
  say(`${bench.options.seconds} s of load`);
  const load = await measurePeer(bench, questlog, questlog, SHAPE);
  const after = await sample(stack, questlog, pids);
  const events = after.events - before.events;
  return {
    ...{ run, shape: SHAPE, events, eventsPerSecond: load.requestsPerSecond * SHAPE.events },
    cpuMicrosPerEvent: eachOf(pids, (name) => (after.cpuMicros[name] - before.cpuMicros[name]) / events),
    peakBytes: eachOf(pids, (name) => memoryOf(pids[name]).peakBytes),
    logBytesPerEvent: (after.logBytes - before.logBytes) / events,
    clickhouseBytesPerEvent: (await tableBytes(stack.engines.clickhouseUrl)) / after.events,
  };
}

/** Waits until the linker and the projector have processed all records, and reads the CPU times and the size of the log. */
async function sample(
  stack: BenchStack,
  questlog: QuestlogPeer,
  pids: Readonly<Record<SizedProcess, number>>,
) {
  const events = await questlog.caughtUp();
  await eventually(questlog.lagRecords, (lag) => lag === 0, CAUGHT_UP_WITHIN_MS);
  const cpuMicros = eachOf(pids, (name) => cpuMicrosOf(pids[name]));
  return { events, cpuMicros, logBytes: stack.brokerBytes(`${NAME}.`) };
}

/** Merges the tables, because small parts take more bytes per row, and returns their bytes on disk. */
async function tableBytes(clickhouseUrl: string): Promise<number> {
  const names = await queryOn(
    clickhouseUrl,
    `SELECT DISTINCT table FROM system.parts WHERE active AND database = '${NAME}' FORMAT TSV`,
  );
  for (const name of names.split('\n').filter(Boolean))
    await queryOn(clickhouseUrl, `OPTIMIZE TABLE ${NAME}.${name} FINAL`);
  const bytes = `SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '${NAME}'`;
  return Number(await queryOn(clickhouseUrl, bytes));
}

function eachOf(
  pids: Readonly<Record<SizedProcess, number>>,
  figure: (name: SizedProcess) => number,
): Record<SizedProcess, number> {
  const names = Object.keys(pids) as SizedProcess[];
  return Object.fromEntries(names.map((name) => [name, figure(name)])) as Record<SizedProcess, number>;
}
