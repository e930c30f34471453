/**
 * `npm run bench:unavailable-partition`: measures appends to healthy partitions while two other partitions are unavailable: one waits
 * for a stopped replica and then has too few replicas; the other has no leader that answers. Phases with and without the fault
 * alternate on one stack. Fails if the p99 of healthy partitions grows by more than half.
 */
import { parseArgs } from 'node:util';
import { openKafkaLog } from '@questlog/runtime/log/kafka/kafkaLog';
import { unreplicatedTopics } from '@questlog/runtime/log/kafka/testing/unreplicated';
import type { Log, TopicSpec } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { environmentIn, stackCommands } from '../../stack/stackCommands.ts';
import { percentile } from '../load/loadPhases.ts';
import { due } from '../pace.ts';

const MAX_RATIO = 1.5;
const VICTIM = 3;
/** Replicas. Only the first partition of each topic needs the victim. */
const REPLICAS = {
  followed: [
    [1, VICTIM],
    [1, 2],
    [2, 1],
    [1, 2],
    [2, 1],
  ],
  led: [[VICTIM], [1], [2]],
};
const SICK = 0;

const { values } = parseArgs({
  options: {
    /** Appends per second and partition. */
    rate: { type: 'string', default: '50' },
    seconds: { type: 'string', default: '15' },
    rounds: { type: 'string', default: '4' },
  },
});
const [rate, seconds, rounds] = [Number(values.rate), Number(values.seconds), Number(values.rounds)];
const RECORD = { key: 'key', value: Buffer.alloc(6000, '{"level":3,"zone":"arena"},') };

/** Rejected appends to healthy partitions. */
let refused = 0;

const stack = stackCommands();
try {
  const up = await stack.do('up', '--brokers', '3');
  await measure((environmentIn(up)['KAFKA_BROKERS'] ?? '').split(','));
} finally {
  await stack.remove();
}

async function measure(brokers: readonly string[]): Promise<void> {
  const specs = await madeTopics(brokers);
  const connection = { brokers, clientId: 'questlog-bench' };
  const log = await openKafkaLog({ connection, prefix: '', replicationFactor: 3, logger: silentLogger });
  await log.ensureTopics(specs);
  const { pid } = (await stack.status())[`broker-${VICTIM}`] ?? { pid: Number.NaN };
  const phases: { well: number[]; sick: number[] } = { well: [], sick: [] };
  await phase(log);
  for (let round = 0; round < rounds; round += 1) {
    phases.well.push(told('all healthy ', await phase(log)));
    process.kill(pid, 'SIGSTOP');
    try {
      phases.sick.push(told('two are sick', await phase(log)));
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    for (const { name } of specs) await well(log, name);
  }
  await log.close();
  const [before, during] = [phases.well, phases.sick].map((all) => percentile(all.toSorted(ascending), 0.5));
  const ratio = (during ?? 0) / (before ?? 1);
  process.stdout.write(
    `ratio of the medians of p99: ${ratio.toFixed(2)}; ${MAX_RATIO} is the bound; ${refused} refused\n`,
  );
  if (!(ratio <= MAX_RATIO) || refused > 0) process.exitCode = 1;
}

async function madeTopics(brokers: readonly string[]): Promise<TopicSpec[]> {
  const cleanup = { policy: 'delete', retentionMs: 3_600_000 } as const;
  const made = Object.entries(REPLICAS).map(async ([name, replicas]) => {
    const config = {
      'cleanup.policy': 'delete',
      'max.message.bytes': '1000000',
      'min.insync.replicas': String(replicas[SICK]?.length),
    };
    await unreplicatedTopics(brokers).create(name, config, replicas);
    return { name, partitions: replicas.length, cleanup, maxRecordBytes: 100_000 };
  });
  return Promise.all(made);
}

/**
 * Returns the latency in milliseconds of each append to the partitions that do not need the victim, from its due time, including
 * rejected appends.
 */
async function phase(log: Log): Promise<number[]> {
  const taken: number[] = [];
  const beganMs = performance.now();
  const appends: Promise<void>[] = [];
  for (let n = 0; n < rate * seconds; n += 1) {
    const dueMs = beganMs + (n * 1000) / rate;
    await due(dueMs);
    for (const [topic, replicas] of Object.entries(REPLICAS)) {
      for (const partition of replicas.keys()) {
        const appended = log.append(topic, partition, [RECORD]);
        if (partition === SICK) appended.catch(() => undefined);
        else
          appends.push(appended.catch(countRefusal).then(() => void taken.push(performance.now() - dueMs)));
      }
    }
  }
  await Promise.all(appends);
  return taken;
}

function countRefusal(error: unknown): void {
  if (!(error instanceof Unavailable)) throw error;
  refused += 1;
}

async function well(log: Log, topic: string): Promise<void> {
  const isTaken = () =>
    log.append(topic, SICK, [RECORD]).then(
      () => true,
      () => false,
    );
  while (!(await isTaken())) await due(performance.now() + 100);
}

/** Prints the latencies. @returns their p99 */
function told(what: string, taken: readonly number[]): number {
  const sorted = taken.toSorted(ascending);
  const [p50, p99] = [percentile(sorted, 0.5), percentile(sorted, 0.99)];
  const figures = `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, longest ${sorted.at(-1)?.toFixed(0)} ms`;
  process.stdout.write(`${what}: ${figures}, ${taken.length} appends\n`);
  return p99;
}

function ascending(a: number, b: number): number {
  return a - b;
}
