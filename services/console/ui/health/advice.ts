/** Detects problems of Questlog, and suggests actions to the operator. */
import type { ConsumerLag, LagOutput, Readiness } from '@questlog/schemas/http/health';
import type { LedgerAnswer } from '@questlog/schemas/http/ledger';
import type { Rates } from './rates.ts';

export interface Advice {
  readonly what: string;
  readonly todo: string;
}

/** The console gives advice if the lag of a consumer exceeds this time. Events normally reach ClickHouse within ten seconds. */
const MAX_LAG_MS = 30_000;
const MAX_RETENTION_SHARE = 0.1;
const MAX_P99_MS = 1_000;
const MIN_FREE_SHARE = 0.1;
/** Minimum free disk space. With less space, the log cannot write or will soon be unable to write. */
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

export function lagName({ group, topic }: ConsumerLag): string {
  return NAMES[`${group} ${topic}`] ?? group;
}

export function adviceOf(state: {
  readonly lag: LagOutput | undefined;
  readonly ready: Partial<Readiness> | undefined;
  readonly rates: Rates | undefined;
  readonly ledger: Pick<LedgerAnswer, 'difference'> | undefined;
}): Advice[] {
  const { lag, ready, rates, ledger } = state;
  const reported = new Set(Object.keys({ ...ready?.problems, ...ready?.warnings }));
  return [
    // A full disk is the first problem in the list, because it causes most other problems.
    ...adviceOfDisk(lag?.disk),
    ...Object.entries({ ...ready?.problems, ...ready?.warnings }).map(([name, sentence]) => ({
      what: `${name}: ${sentence}.`,
      todo: actionFor(name),
    })),
    ...(lag?.consumers.flatMap((consumer) => adviceOfConsumer(consumer, reported)) ?? []),
    ...adviceIf((rates?.errors ?? 0) > 0, 'Questlog answers some requests with a 5xx status.', ERRORS),
    ...adviceIf((rates?.p99Ms ?? 0) > MAX_P99_MS, '1 % of the responses take more than a second.', SLOW),
    ...adviceIf(
      (ledger?.difference?.events ?? 0) > 0,
      'Some accepted events of the last day are neither in ClickHouse nor in the dead letters.',
      LEDGER,
    ),
  ];
}

function adviceOfDisk(disk: LagOutput['disk'] | undefined): Advice[] {
  if (disk == null) return [];
  if (disk.freeBytes < MIN_FREE_BYTES) return [{ what: 'The disk is full.', todo: FULL }];
  return adviceIf(disk.freeBytes < MIN_FREE_SHARE * disk.totalBytes, 'The disk is almost full.', ALMOST_FULL);
}

/** @param reported the consumer groups that `GET /readyz` already reports as stuck. */
function adviceOfConsumer(consumer: ConsumerLag, reported: ReadonlySet<string>): Advice[] {
  const { group, lagMs, lagRecords, shareOfRetention, lostRecords } = consumer;
  const name = lagName(consumer);
  const todo = group === 'questlog-link' ? LINKER : PROJECTOR;
  if (lostRecords > 0) {
    return [{ what: `${name}: ${lostRecords.toLocaleString()} records are lost.`, todo: LOST }];
  }
  if ((shareOfRetention ?? 0) > MAX_RETENTION_SHARE) {
    const share = Math.round(100 * (shareOfRetention ?? 0));
    return [
      { what: `${name}: the lag is ${share} % of the log’s retention; at 100 %, records are lost.`, todo },
    ];
  }
  const seconds = Math.round((lagMs ?? 0) / 1000).toLocaleString();
  const what = `${name}: ${seconds} s and ${lagRecords.toLocaleString()} records behind.`;
  const isReported = reported.has(group) || reported.has(`${group} ${consumer.topic}`);
  return adviceIf((lagMs ?? 0) > MAX_LAG_MS && !isReported, what, todo);
}

function adviceIf(isBad: boolean, what: string, todo: string): Advice[] {
  return isBad ? [{ what, todo }] : [];
}

function actionFor(name: string): string {
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined;
  return (
    action ?? (/clickhouse/i.test(name) ? CLICKHOUSE : name.startsWith('questlog-link') ? LINKER : PROJECTOR)
  );
}

const PROJECTOR =
  'Events are safe in the log, but not yet in ClickHouse. Check that ClickHouse answers and has free disk and CPU, then add projectors. See docs/operating/runbooks/lag.md. If one tenant is the cause, see docs/operating/hot-tenants.md.';
const LINKER =
  'Links are late, but none is lost. Check whether the projector is behind, because the linker waits for it. Then see docs/operating/linker.md.';
const CLICKHOUSE =
  'Questlog still accepts events. Start ClickHouse, or check its address in CLICKHOUSE_URL. Until then, the console shows no new data. See docs/operating/outages.md.';
const LOST =
  'The log deleted the records before they were read. Increase its retention, and add consumers. See docs/operating/runbooks/lag.md.';
const ERRORS =
  'Search the log of this process for request_unavailable (a dependency failed) and request_failed (a bug). See docs/operating/outages.md.';
const SLOW =
  'A response waits for the log. Check the disk of the log or the brokers, and the CPU of this process.';
const LEDGER =
  'Run npx questlog verify --from 1d, which lists the records. docs/operating/verify.md explains how to project them again.';
const ALMOST_FULL =
  'Free space, or give the data folder a larger disk. When the disk is full, requests get a 503. See docs/operating/runbooks/full-disk.md.';
const FULL =
  'Requests get a 503, and games keep their unsent events. Free space, or give the data folder a larger disk. Questlog then resumes automatically. See docs/operating/runbooks/full-disk.md.';

/** Actions for problems and warnings of `GET /readyz`, by name. */
const ACTIONS: Readonly<Record<string, string>> = {
  'embedded ClickHouse':
    'Questlog restarts ClickHouse automatically. If this does not help, check the disk, the memory, and embedded_clickhouse_broken in the log.',
  log: 'Check the brokers, or the disk of the data folder. Until the log is back, requests get a 503. If partitions are listed too, only requests for these partitions fail.',
  partitions:
    'Check the leader and the replicas of these partitions in Kafka. Until they are back, requests for them get a 503, and their events reach ClickHouse late.',
  partitions_were_added:
    'Questlog has lost no data. Make other writers use only the original partitions of the topic. docs/operating/kafka.md explains which added partitions Questlog reads.',
  log_truncated:
    'Questlog has repaired its state. The table truncations lists the lost records. Find out why the brokers lost them. See docs/operating/truncation.md.',
  log_cut_short:
    'Questlog appends the sessions, reports, tenants and tokens in its memory again. Events that were not in ClickHouse are lost. The table truncations lists the events that ClickHouse still has. See docs/operating/truncation.md.',
  disk: ALMOST_FULL,
  log_file: 'Stop Questlog, run npx questlog compact, and start it again.',
  retention: 'Fix the named cause. Questlog tries again every hour. See docs/operating/retention.md.',
  readers:
    'Fix the named cause. Questlog tries again every 5 s. See the section on accounts of studios in docs/operating/kafka.md.',
  restored:
    'Wait: the projector is filling the restored tables. Requests that need missing data get a 503 until then.',
  broken_parts:
    'Run npx questlog verify --from 7d. If events are missing, consider restoring the newest backup, which lacks all later data (docs/operating/runbooks/restore.md). To end this warning, drop the broken parts (docs/operating/runbooks/erasure.md) and restart Questlog.',
  workers: 'Questlog restarts the worker automatically. The log entry worker_ended has the cause.',
  dead_letters:
    'The page Dead letters shows the cause of each dead letter. Fix the cause, then replay the dead letters. They are kept for 30 days. See docs/operating/runbooks/dead-letters.md.',
};
