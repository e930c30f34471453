/** What is bad, and what an operator does about it. Pure. */
import type { Rates } from './metricsHistory.ts';

/** As `GET /admin/lag` answers. */
export interface Lag {
  readonly at: string;
  readonly consumers: readonly {
    readonly group: string;
    readonly topic: string;
    readonly lagRecords: number;
    readonly lagMs: number | null;
    readonly shareOfRetention: number | null;
    readonly lostRecords: number;
  }[];
  readonly disk: { readonly freeBytes: number; readonly totalBytes: number } | null;
}

/** As `GET /admin/ledger` answers. */
export interface Ledger {
  readonly difference: { readonly events: number; readonly ageSeconds: number } | null;
}

/** As `GET /readyz` answers. */
export interface Ready {
  readonly problems?: Readonly<Record<string, string>>;
  readonly warnings?: Readonly<Record<string, string>>;
}

export interface Advice {
  readonly what: string;
  readonly todo: string;
}

/** Events are in ClickHouse within ten seconds where all is well. */
const MAX_LAG_MS = 30_000;
const MAX_RETENTION_SHARE = 0.1;
const MAX_P99_MS = 1_000;
const MIN_FREE_SHARE = 0.1;
/** The log writes no more, or soon. */
const MIN_FREE_BYTES = 16 * 1024 * 1024;

const NAMES: Readonly<Record<string, string>> = {
  'questlog-project-events questlog.events.v1': 'Events to ClickHouse',
  'questlog-project-sessions questlog.sessions.v1': 'Sessions to ClickHouse',
  'questlog-project-reports questlog.report-links.v1': 'Reports to ClickHouse',
  'questlog-project-links questlog.linked-events.v1': 'Links to ClickHouse',
  'questlog-project-audit questlog.audit.v1': 'Audit to ClickHouse',
  'questlog-link questlog.events.v1': 'Events to the linker',
  'questlog-link questlog.report-links.v1': 'Reports to the linker',
};

export function lagName({ group, topic }: { readonly group: string; readonly topic: string }): string {
  return NAMES[`${group} ${topic}`] ?? group;
}

/** @param state what is known by now. */
export function adviceOf(state: {
  readonly lag: Lag | undefined;
  readonly ready: Ready | undefined;
  readonly rates: Rates | undefined;
  readonly ledger: Ledger | undefined;
}): Advice[] {
  const { lag, ready, rates, ledger } = state;
  const reported = new Set(Object.keys({ ...ready?.problems, ...ready?.warnings }));
  return [
    // First: where it is full, everything else follows from it.
    ...adviceOfDisk(lag?.disk),
    ...Object.entries({ ...ready?.problems, ...ready?.warnings }).map(([name, sentence]) => ({
      what: `${name}: ${sentence}.`,
      todo: actionFor(name),
    })),
    ...(lag?.consumers.flatMap((consumer) => adviceOfConsumer(consumer, reported)) ?? []),
    ...adviceIf((rates?.errors ?? 0) > 0, 'Questlog answers requests with a 5xx.', ERRORS),
    ...adviceIf((rates?.p99Ms ?? 0) > MAX_P99_MS, 'One answer in a hundred takes more than a second.', SLOW),
    ...adviceIf(
      (ledger?.difference?.events ?? 0) > 0,
      'Accepted events of the last day are neither in ClickHouse nor dead letters.',
      LEDGER,
    ),
  ];
}

function adviceOfDisk(disk: Lag['disk'] | undefined): Advice[] {
  if (disk == null) return [];
  if (disk.freeBytes < MIN_FREE_BYTES) return [{ what: 'The disk is full.', todo: FULL }];
  return adviceIf(disk.freeBytes < MIN_FREE_SHARE * disk.totalBytes, 'The disk is almost full.', ALMOST_FULL);
}

/** @param reported readiness has said of these groups that they stand still. */
function adviceOfConsumer(consumer: Lag['consumers'][number], reported: ReadonlySet<string>): Advice[] {
  const { group, lagMs, lagRecords, shareOfRetention, lostRecords } = consumer;
  const name = lagName(consumer);
  const todo = group === 'questlog-link' ? LINKER : PROJECTOR;
  if (lostRecords > 0) {
    return [{ what: `${name}: ${lostRecords.toLocaleString()} records are lost.`, todo: LOST }];
  }
  if ((shareOfRetention ?? 0) > MAX_RETENTION_SHARE) {
    const share = Math.round(100 * (shareOfRetention ?? 0));
    return [
      { what: `${name} is behind by ${share} % of what the log keeps; at 100 % records are lost.`, todo },
    ];
  }
  const seconds = Math.round((lagMs ?? 0) / 1000).toLocaleString();
  const what = `${name} is ${seconds} s behind, with ${lagRecords.toLocaleString()} records.`;
  const isReported = reported.has(group) || reported.has(`${group} ${consumer.topic}`);
  return adviceIf((lagMs ?? 0) > MAX_LAG_MS && !isReported, what, todo);
}

function adviceIf(isBad: boolean, what: string, todo: string): Advice[] {
  return isBad ? [{ what, todo }] : [];
}

function actionFor(name: string): string {
  if (name === 'embedded ClickHouse') return RESTARTED;
  if (/clickhouse/i.test(name)) {
    return 'Games are still answered. Start ClickHouse again, or look at its address in CLICKHOUSE_URL; until then nothing new can be read here.';
  }
  if (name === 'log')
    return 'Look at the brokers, or at the disk of the data folder. If partitions are named too, games of these are answered 503 until they are back; otherwise all are.';
  if (name === 'partitions')
    return 'What takes no appends is answered 503, and what gives no records comes late, until Kafka has it back. See which brokers lead and follow these partitions.';
  if (name === 'partitions_were_added') return ADDED;
  if (name === 'log_truncated') return TRUNCATED;
  if (name === 'log_cut_short') return CUT_SHORT;
  if (name === 'disk') return ALMOST_FULL;
  if (name === 'log_file') return 'Stop Questlog, run npx questlog compact, and start it again.';
  if (name === 'retention')
    return 'Mend what it names; it is tried again each hour. docs/operating/retention.md.';
  if (name === 'restored') return RESTORED;
  if (name === 'broken_parts') return BROKEN;
  if (name === 'workers') return 'It is started again by itself; worker_ended in the log says why it ended.';
  if (name === 'dead_letters') return DEAD;
  return name.startsWith('questlog-link') ? LINKER : PROJECTOR;
}

const RESTARTED =
  'It is started again by itself. If this stays, look at the disk, the memory, and embedded_clickhouse_broken in the log.';
const RESTORED =
  'Wait: the projector fills what was restored. Games are answered 503 for what is not back yet.';
const BROKEN =
  'Run npx questlog verify --from 7d. If something is missing, weigh restoring the newest backup, which lacks what came after it (docs/operating/runbooks/restore.md). Drop the parts (docs/operating/runbooks/erasure.md) and start again to end this warning.';
const ADDED =
  'Nothing of Questlog’s own is lost. Have other writers use the partitions that the topic was made with; docs/operating/kafka.md says what is read of the others.';
const TRUNCATED =
  'Everything is repaired. Ask the table truncations what was lost, and find out why the brokers lost it; docs/operating/truncation.md.';
const CUT_SHORT =
  'Sessions, reports, tenants and tokens that this process knew are appended again. Events that ClickHouse did not have are gone; the table truncations tells of the others, docs/operating/truncation.md of both.';

const PROJECTOR =
  'Events are safe in the log; ClickHouse does not have them yet. See whether ClickHouse answers and has disk and CPU left, then add projectors; docs/operating/hot-tenants.md helps where one tenant is the cause.';
const LINKER =
  'Links come late; none is lost. See whether the projector is behind, which the linker waits for, then docs/operating/linker.md.';
const LOST = 'The log gave them up before they were read: lengthen its retention, and add consumers.';
const ERRORS =
  'Look for request_unavailable (a dependency) and request_failed (a bug, with its cause) in the log lines of this process.';
const SLOW =
  'An answer waits for the log: look at the disk of the log or at the brokers, and at the CPU of this process.';
const LEDGER =
  'Run npx questlog verify --from 1d: it names the records, and docs/operating/verify.md says how to project them again.';
const DEAD =
  'The page Dead letters names the cause of each. Mend it, then replay them; they are kept for 30 days.';
const ALMOST_FULL =
  'When it is full, games are answered 503. Free space, or give the data folder a larger disk.';
const FULL =
  'Games are answered 503 and keep what they could not send. Free space, or give the data folder a larger disk: everything resumes by itself, docs/operating/one-process.md.';
