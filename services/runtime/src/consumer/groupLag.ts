/**
 * Measures the lag of each consumer group. Reads the lag from the log, because the lag must be known even if no process of the
 * group runs.
 */
import type { ConsumerLag } from '@questlog/schemas/http/health';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { firstRecords } from '../log/firstRecords.ts';
import type { Log } from '../log/log.ts';
import type { Clock } from '../process/clock.ts';

type LagLog = Pick<Log, 'committed' | 'retention' | 'offsetRanges' | 'partitionCount' | 'tail'>;

const CONSUMERS = [
  { group: GROUPS.projectEvents, topic: TOPICS.events },
  { group: GROUPS.projectSessions, topic: TOPICS.sessions },
  { group: GROUPS.projectReports, topic: TOPICS.reportLinks },
  { group: GROUPS.projectLinks, topic: TOPICS.linkedEvents },
  { group: GROUPS.projectAudit, topic: TOPICS.audit },
  { group: GROUPS.link, topic: TOPICS.events },
  { group: GROUPS.link, topic: TOPICS.reportLinks },
];
const READ_TIMEOUT_MS = 1_000;
/** Above this lag, the oldest record is read less frequently, because each read can fetch a few MiB per partition. */
const LARGE_LAG_RECORDS = 1_000;
const LARGE_LAG_READ_INTERVAL_MS = 10_000;
const MAX_ESTIMATE_INTERVAL_MS = 30_000;
const RETENTION_CACHE_MS = 60_000;

/** Creates a `GroupLag` for each consumer group. If `isExact` is false, the age of the oldest record can be an estimate. */
export function groupLags(deps: { log: LagLog; clock: Clock }, isExact = true): GroupLag[] {
  return CONSUMERS.map(({ group, topic }) => new GroupLag(deps.log, { group, topic, isExact }));
}

interface Position {
  readonly partition: number;
  readonly offset: number;
  readonly end: number;
  readonly lost: number;
}

interface Measurement {
  readonly atMs: number;
  readonly positions: readonly Position[];
}

export class GroupLag {
  readonly group: string;
  readonly topic: string;
  readonly #log: LagLog;
  readonly #isExact: boolean;
  #cachedRetention: { readonly retentionMs: number; readonly fetchedAtMs: number } | undefined;
  /** The oldest unprocessed record of each partition, by partition number. */
  #nextRecords = new Map<number, { readonly offset: number; readonly timestampMs: number }>();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #previous: Measurement | undefined;

  constructor(log: LagLog, of: { group: string; topic: string; isExact: boolean }) {
    this.#log = log;
    this.group = of.group;
    this.topic = of.topic;
    this.#isExact = of.isExact;
  }

  /** Measures the lag at the time `nowMs`. @throws Unavailable if the log does not return the group's offsets. */
  async measure(nowMs: number): Promise<ConsumerLag> {
    const positions = await this.#positions();
    const retentionMs = await this.#retention(nowMs);
    const partitions = positions.map(({ partition, offset, end }) => ({
      ...{ partition, offset },
      lagRecords: end - offset,
    }));
    const lagRecords = sum(partitions.map((partition) => partition.lagRecords));
    const measurement = { atMs: nowMs, positions };
    const oldestMs = lagRecords === 0 ? nowMs : await this.#oldestTimestamp(measurement, lagRecords);
    this.#previous = measurement;
    const lagMs = oldestMs === undefined ? null : Math.max(0, nowMs - oldestMs);
    return {
      ...{ group: this.group, topic: this.topic, lagRecords, lagMs },
      retentionMs: Number.isFinite(retentionMs) ? retentionMs : null,
      shareOfRetention: lagMs === null ? null : lagMs / retentionMs,
      lostRecords: sum(positions.map(({ lost }) => lost)),
      partitions,
    };
  }

  async #retention(nowMs: number): Promise<number> {
    if (
      this.#cachedRetention === undefined ||
      nowMs - this.#cachedRetention.fetchedAtMs >= RETENTION_CACHE_MS
    )
      this.#cachedRetention = { ...(await this.#log.retention(this.topic)), fetchedAtMs: nowMs };
    return this.#cachedRetention.retentionMs;
  }

  async #positions(): Promise<Position[]> {
    const commits = await this.#log.committed(this.group, this.topic);
    // Committed offsets are read before end offsets, so that the lag is never negative.
    const ranges = await this.#log.offsetRanges(this.topic);
    return ranges.flatMap((range, partition) => {
      if (range === undefined) return [];
      const { startOffset: start, endOffset: end } = range;
      const next = commits[partition]?.offset ?? start;
      const offset = Math.min(Math.max(next, start), end);
      return [{ partition, offset, end, lost: Math.max(0, start - next) }];
    });
  }

  async #oldestTimestamp(measurement: Measurement, lagRecords: number): Promise<number | undefined> {
    const behind = measurement.positions.filter(({ offset, end }) => offset < end);
    const known = new Map(
      [...this.#nextRecords].filter(([partition]) =>
        behind.some((position) => position.partition === partition),
      ),
    );
    const unknown = behind.filter(({ partition, offset }) => {
      if (known.get(partition)?.offset === offset) return false;
      const timestampMs = this.#isExact ? undefined : this.#estimatedTimestamp(partition, measurement);
      if (timestampMs !== undefined) known.set(partition, { offset, timestampMs });
      return timestampMs === undefined;
    });
    const isDue =
      lagRecords <= LARGE_LAG_RECORDS || measurement.atMs - this.#readAtMs >= LARGE_LAG_READ_INTERVAL_MS;
    if (unknown.length > 0 && isDue) {
      this.#readAtMs = measurement.atMs;
      const ranges = new Map(
        unknown.map(({ partition, offset, end }) => [partition, { startOffset: offset, endOffset: end }]),
      );
      const read = await firstRecords(this.#log, this.topic, ranges, { limitMs: READ_TIMEOUT_MS });
      for (const { partition, offset } of unknown) {
        const timestampMs = read.get(partition)?.timestampMs;
        if (timestampMs !== undefined) known.set(partition, { offset, timestampMs });
      }
    }
    this.#nextRecords = known;
    const times = [...known.values()].map(({ timestampMs }) => timestampMs);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  #estimatedTimestamp(partition: number, { atMs, positions }: Measurement): number | undefined {
    const [before, now] = [this.#previous?.positions, positions].map((looked) =>
      looked?.find((position) => position.partition === partition),
    );
    if (this.#previous === undefined || before === undefined || now === undefined) return undefined;
    if (now.offset < before.end || atMs - this.#previous.atMs > MAX_ESTIMATE_INTERVAL_MS) return undefined;
    const share = (now.offset - before.end + 1) / (now.end - before.end + 1);
    return this.#previous.atMs + share * (atMs - this.#previous.atMs);
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}
