/** Health as progress: a consumer that holds lag and has not moved is not ready, whatever its sockets say. */
import type { Log } from '../log/log.ts';
import type { ServiceDeps } from './serviceDeps.ts';

export interface GroupProgress {
  /** Records that the group has not committed, over all partitions that have a leader. */
  readonly lagRecords: number;
  /** A sentence when a partition has lag and has not moved for the bound. */
  readonly problem: string | undefined;
}

const STALLED_AFTER_MS = 30_000;
const CHECK_INTERVAL_MS = 5_000;

/** @returns a look at the group: the log is asked for the ranges and for the commits, once each. */
export function watchProgress({
  log,
  clock,
  group,
  topic,
  activityOf,
}: Pick<ServiceDeps, 'log' | 'clock'> &
  Pick<ProgressCheck, 'group' | 'topic'> &
  Partial<Pick<ProgressCheck, 'activityOf'>>): () => Promise<GroupProgress> {
  const detector = new StallDetector(group, topic, activityOf);
  return async () => {
    const pendingRanges = log.offsetRanges(topic);
    const known = { committed: log.committed.bind(log), offsetRanges: () => pendingRanges };
    const [ranges, positions] = await Promise.all([pendingRanges, positionsOf(known, group, topic)]);
    const partitions = ranges.flatMap((range, partition) => {
      // Nobody can move on a partition without a leader: no restart of this process would help, and others need it.
      if (range === undefined) return [];
      const offset = positions[partition] ?? 0;
      return [{ partition, offset, lagRecords: range.endOffset - offset }];
    });
    return {
      lagRecords: partitions.reduce((sum, { lagRecords }) => sum + lagRecords, 0),
      problem: detector.check(partitions, clock.now()),
    };
  };
}

/** Where a group stands on a partition. */
export interface PartitionProgress {
  readonly partition: number;
  /** The next that it is to process. */
  readonly offset: number;
  readonly lagRecords: number;
}

/** Tells, from look to look, of a group that has lag on a partition and does not move. */
export class StallDetector {
  readonly #group: string;
  readonly #topic: string;
  readonly #activityOf: ProgressCheck['activityOf'];
  #marks: ReadonlyMap<number, { readonly offset: number; readonly atMs: number }> = new Map();

  constructor(group: string, topic: string, activityOf: ProgressCheck['activityOf'] = () => undefined) {
    this.#group = group;
    this.#topic = topic;
    this.#activityOf = activityOf;
  }

  /** @param partitions those that have a leader. @returns a sentence once one of them has stood still for the bound. */
  check(partitions: readonly PartitionProgress[], nowMs: number): string | undefined {
    // An idle partition has no mark: what arrives after an hour of silence has not been waiting for an hour.
    const waiting = partitions.filter(({ lagRecords }) => lagRecords !== 0);
    const before = this.#marks;
    this.#marks = new Map(
      waiting.map(({ partition, offset }) => {
        const mark = before.get(partition);
        return [partition, mark?.offset === offset ? mark : { offset, atMs: nowMs }];
      }),
    );
    const stalled = waiting.find(
      ({ partition }) => nowMs - (this.#marks.get(partition)?.atMs ?? nowMs) > STALLED_AFTER_MS,
    );
    if (stalled === undefined) return undefined;
    const { partition, offset, lagRecords } = stalled;
    const activity = this.#activityOf(partition);
    const own = activity === undefined ? '' : `; this process ${activity}`;
    return `${this.#group} has not moved on ${this.#topic}/${partition} since offset ${offset}, ${lagRecords} records behind${own}`;
  }
}

export interface ProgressCheck {
  readonly group: string;
  readonly topic: string;
  /** Of the check. */
  readonly name: string;
  /** As the process's own `Consumer` says it. */
  activityOf(partition: number): string | undefined;
}

/**
 * Checks a group's progress as part of the process's health. It also looks every few seconds unasked: whoever asks for the
 * first time must hear of a partition that has been stuck since long before. @returns what ends it.
 */
export function checkProgress(
  deps: Pick<ServiceDeps, 'log' | 'clock' | 'health'>,
  { group, topic, name, activityOf }: ProgressCheck,
  onLag: (records: number) => void,
): () => void {
  const measure = watchProgress({ ...deps, group, topic, activityOf });
  const check = async (): Promise<string | undefined> => {
    const { lagRecords, problem } = await measure();
    onLag(lagRecords);
    return problem;
  };
  deps.health.check(name, check);
  const timer = setInterval(() => void check().catch(() => {}), CHECK_INTERVAL_MS);
  return () => clearInterval(timer);
}

/**
 * Per partition, the offset below which the group has read everything: its commit, or where the topic begins; 0 where that
 * is unknown, since the partition has no leader now.
 * @param isRelevant where a topic begins is a request to every broker, made only if a partition that matters has no commit.
 */
export async function positionsOf(
  log: Pick<Log, 'committed' | 'offsetRanges'>,
  group: string,
  topic: string,
  isRelevant: (partition: number) => boolean = () => true,
): Promise<number[]> {
  const commits = await log.committed(group, topic);
  const isNeeded = commits.some((commit, partition) => commit === undefined && isRelevant(partition));
  const ranges = isNeeded ? await log.offsetRanges(topic) : [];
  return commits.map((commit, partition) => commit?.offset ?? ranges[partition]?.startOffset ?? 0);
}
