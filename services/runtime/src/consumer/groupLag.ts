/**
 * How far each consumer group is behind the log, asked of the log alone: it is known too while no process of the group runs.
 */
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import type { Log } from '../log/log.ts';
import type { Clock } from '../process/clock.ts';
import { settledWithin } from '../process/waiting.ts';
import type { Standing } from './progress.ts';

export interface ConsumerLag {
  readonly group: string;
  readonly topic: string;
  /** Not processed yet, over all partitions that have a leader. */
  readonly lagRecords: number;
  /** The age of the oldest of them; null where the log did not tell it in time. */
  readonly lagMs: number | null;
  /** As the log has it now; Infinity where age removes nothing. */
  readonly retentionMs: number;
  /** `lagMs` of `retentionMs`. */
  readonly shareOfRetention: number | null;
  /** Retention removed them before the group had read them. */
  readonly lostRecords: number;
  readonly partitions: readonly Standing[];
}

type AskedLog = Pick<Log, 'committed' | 'retention' | 'offsetRanges' | 'partitionCount' | 'tail'>;

const CONSUMERS = [
  { group: GROUPS.projectEvents, topic: TOPICS.events },
  { group: GROUPS.projectSessions, topic: TOPICS.sessions },
  { group: GROUPS.projectReports, topic: TOPICS.reportLinks },
  { group: GROUPS.projectLinks, topic: TOPICS.linkedEvents },
  { group: GROUPS.projectAudit, topic: TOPICS.audit },
  { group: GROUPS.link, topic: TOPICS.events },
  { group: GROUPS.link, topic: TOPICS.reportLinks },
];
const READ_WITHIN_MS = 1_000;
/** To read where a group stands costs a few MiB a partition where much lies behind it: then it is done less often. */
const MANY_RECORDS = 1_000;
const REREAD_MANY_MS = 10_000;
/** Between looks that are farther apart nothing is estimated. */
const MAX_ESTIMATED_MS = 30_000;
/** Operators change the retention of a topic while this runs. */
const REASK_RETENTION_MS = 60_000;

/**
 * @param isExact false: the age of what came since the last look is estimated, so that a group that keeps up, which is nearly
 *   always, costs no reading.
 */
export function groupLags(deps: { log: AskedLog; clock: Clock }, isExact = true): GroupLag[] {
  return CONSUMERS.map(({ group, topic }) => new GroupLag(deps.log, { group, topic, isExact }));
}

/** Where a group stands on a partition. */
interface Position {
  readonly partition: number;
  readonly offset: number;
  readonly end: number;
  readonly lost: number;
}

interface Look {
  readonly atMs: number;
  readonly positions: readonly Position[];
}

export class GroupLag {
  readonly group: string;
  readonly topic: string;
  readonly #log: AskedLog;
  readonly #isExact: boolean;
  #kept: { readonly retentionMs: number; readonly askedMs: number } | undefined;
  /** Per partition, when the record was taken that the group is to read next, as of the last reading. */
  #taken = new Map<number, { readonly offset: number; readonly takenMs: number }>();
  #readMs = Number.NEGATIVE_INFINITY;
  #last: Look | undefined;

  constructor(log: AskedLog, of: { group: string; topic: string; isExact: boolean }) {
    this.#log = log;
    this.group = of.group;
    this.topic = of.topic;
    this.#isExact = of.isExact;
  }

  /** @throws Unavailable while the log does not tell where the group stands. */
  async look(nowMs: number): Promise<ConsumerLag> {
    const positions = await this.#positions();
    const retentionMs = await this.#retention(nowMs);
    const partitions = positions.map(({ partition, offset, end }) => ({
      ...{ partition, offset },
      lagRecords: end - offset,
    }));
    const lagRecords = sum(partitions.map((partition) => partition.lagRecords));
    const look = { atMs: nowMs, positions };
    const oldestMs = lagRecords === 0 ? nowMs : await this.#oldest(look, lagRecords);
    this.#last = look;
    const lagMs = oldestMs === undefined ? null : Math.max(0, nowMs - oldestMs);
    return {
      ...{ group: this.group, topic: this.topic, lagRecords, lagMs },
      retentionMs,
      shareOfRetention: lagMs === null ? null : lagMs / retentionMs,
      lostRecords: sum(positions.map(({ lost }) => lost)),
      partitions,
    };
  }

  async #retention(nowMs: number): Promise<number> {
    if (this.#kept === undefined || nowMs - this.#kept.askedMs >= REASK_RETENTION_MS)
      this.#kept = { ...(await this.#log.retention(this.topic)), askedMs: nowMs };
    return this.#kept.retentionMs;
  }

  /** Of the partitions that have a leader. */
  async #positions(): Promise<Position[]> {
    const commits = await this.#log.committed(this.group, this.topic);
    // Behind the commits, so that none of them is beyond the end.
    const ranges = await this.#log.offsetRanges(this.topic);
    return ranges.flatMap((range, partition) => {
      if (range === undefined) return [];
      const { startOffset: start, endOffset: end } = range;
      const next = commits[partition]?.offset ?? start;
      const offset = Math.min(Math.max(next, start), end);
      return [{ partition, offset, end, lost: Math.max(0, start - next) }];
    });
  }

  /** When the log took the oldest unprocessed record; undefined where that is not known. */
  async #oldest(look: Look, lagRecords: number): Promise<number | undefined> {
    const behind = look.positions.filter(({ offset, end }) => offset < end);
    const known = new Map(
      [...this.#taken].filter(([partition]) => behind.some((position) => position.partition === partition)),
    );
    const unknown = behind.filter(({ partition, offset }) => {
      if (known.get(partition)?.offset === offset) return false;
      const takenMs = this.#isExact ? undefined : this.#cameAbout(partition, look);
      if (takenMs !== undefined) known.set(partition, { offset, takenMs });
      return takenMs === undefined;
    });
    const isDue = lagRecords <= MANY_RECORDS || look.atMs - this.#readMs >= REREAD_MANY_MS;
    if (unknown.length > 0 && isDue) {
      this.#readMs = look.atMs;
      const read = await takenAt(this.#log, this.topic, unknown);
      for (const { partition, offset } of unknown) {
        const takenMs = read.get(partition);
        if (takenMs !== undefined) known.set(partition, { offset, takenMs });
      }
    }
    this.#taken = known;
    const times = [...known.values()].map(({ takenMs }) => takenMs);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** Between two looks records come evenly, about. Undefined where the record was there at the last one. */
  #cameAbout(partition: number, { atMs, positions }: Look): number | undefined {
    const [before, now] = [this.#last?.positions, positions].map((looked) =>
      looked?.find((position) => position.partition === partition),
    );
    if (this.#last === undefined || before === undefined || now === undefined) return undefined;
    if (now.offset < before.end || atMs - this.#last.atMs > MAX_ESTIMATED_MS) return undefined;
    const share = (now.offset - before.end + 1) / (now.end - before.end + 1);
    return this.#last.atMs + share * (atMs - this.#last.atMs);
  }
}

/** Reads one batch of each of these. @returns per partition, when the first record there was taken; of some none, if it takes long. */
async function takenAt(
  log: AskedLog,
  topic: string,
  positions: readonly Position[],
): Promise<Map<number, number>> {
  const taken = new Map<number, number>();
  const wanted = new Map(positions.map((position) => [position.partition, position]));
  const all = Promise.withResolvers<void>();
  const every = Array.from({ length: await log.partitionCount(topic) }, (_, partition) =>
    wanted.get(partition),
  );
  const tail = await log.tail({
    topic,
    from: every.map((position) => position?.offset ?? 0),
    partitions: [...wanted.keys()],
    onBatch: async ({ partition, records: [first] }) => {
      if (first === undefined) return;
      taken.set(partition, first.timestampMs);
      if (taken.size === wanted.size) all.resolve();
      // Nothing behind it is read.
      await all.promise;
    },
  });
  const reached = tail.waitForOffsets(every.map((position) => position?.end ?? 0));
  await settledWithin(
    Promise.race([all.promise, reached, tail.failed]).catch(() => {}),
    READ_WITHIN_MS,
  );
  all.resolve();
  await tail.close();
  return taken;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}
