/** Checks the progress of consumer groups. A process is not ready if its consumer has lag and does not advance. */
import { positionsOf } from '../log/projection/projection.ts';
import type { ServiceDeps } from './serviceDeps.ts';

export interface GroupProgress {
  readonly lagRecords: number;
  readonly problem: string | undefined;
}

const STALLED_AFTER_MS = 30_000;
const CHECK_INTERVAL_MS = 5_000;

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
      // A partition without a leader does not make this process unready, because a restart cannot give the partition a leader.
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

export interface PartitionProgress {
  readonly partition: number;
  readonly offset: number;
  readonly lagRecords: number;
}

/** Compares successive measurements. Detects partitions that have lag but do not advance. */
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

  /** Adds a measurement. Returns a message if a partition has lag and has not advanced for too long. */
  check(partitions: readonly PartitionProgress[], nowMs: number): string | undefined {
    // Ignores partitions without lag. Otherwise, a partition would look stalled when a record arrives after an idle hour.
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
    return `${this.#group} has not advanced on ${this.#topic}/${partition} since offset ${offset}, and is ${lagRecords} records behind${own}`;
  }
}

export interface ProgressCheck {
  readonly group: string;
  readonly topic: string;
  readonly name: string;
  /** Returns what the consumer of this process is doing with a partition, as text for operators. */
  activityOf(partition: number): string | undefined;
}

/** Registers the progress of a group as a health check. Returns a function that ends the check. */
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
