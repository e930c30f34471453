/** The command `questlog follow`: shows when an event was received, projected to ClickHouse, and linked to bug reports. */
import { setTimeout as delay } from 'node:timers/promises';
import { canonicalUuid, isUuidV7 } from '@questlog/schemas/uuid';
import { Command } from 'commander';
import type { AdminEndpoint, Connection } from '../connection.ts';
import { example, wholeNumber } from '../manage.ts';
import { cellText, withPayload } from '../print.ts';

const POLL_MS = 250;

interface Options {
  readonly wait: number;
  readonly json?: boolean;
}

export function followCommand(connect: () => Promise<Connection>): Command {
  const command: Command = new Command('follow')
    .description('show an event in the log and in ClickHouse, and its links to bug reports')
    .argument('<eventId>', 'id of the event, from the response that the game received')
    .option('--wait <seconds>', 'maximum time to wait until ClickHouse has the event', wholeNumber, 10)
    .option('--json', 'print JSON');
  example(command, 'questlog follow 01a1fe02-7454-7000-a110-3027adf24232');
  return command.action(async (text: string, { wait, json = false }: Options) => {
    const id = canonicalUuid(text);
    if (id === undefined || !isUuidV7(id)) {
      command.error('error: the id of an event is a UUIDv7, such as 01a1fe02-7454-7000-a110-3027adf24232');
    }
    const { admin } = await connect();
    const row = await waitForEvent(admin, id, wait * 1000);
    if (row === undefined) {
      throw new Error(
        `ClickHouse has no event ${id} after ${wait} s. Check the id, and that this is the right Questlog. Run questlog doctor to see whether the projector is behind.`,
      );
    }
    const links = await linksOf(admin, row);
    process.stdout.write(json ? `${jsonOf(row, links)}\n` : linesOf(row, links));
  });
}

async function waitForEvent(admin: AdminEndpoint, id: string, waitMs: number): Promise<EventRow | undefined> {
  const deadlineMs = performance.now() + waitMs;
  for (let isFirst = true; ; isFirst = false) {
    const [row] = await rows<EventRow>(admin, EVENT_QUERY.replaceAll('{id}', id));
    if (row !== undefined || performance.now() >= deadlineMs) return row;
    if (isFirst) process.stderr.write(`not in ClickHouse yet; waiting for up to ${waitMs / 1000} s\n`);
    await delay(POLL_MS);
  }
}

/** Finds the event by the time in its id, because the primary key of the table `events` starts with this time. */
const EVENT_QUERY = `SELECT id, tenant_id AS tenantId, project_id AS projectId, session_id AS sessionId,
    build_id AS buildId, event_type AS eventType, over_quota AS overQuota, toString(sequence) AS sequence,
    ${iso('occurred_at')} AS occurredAt, ${iso('received_at')} AS receivedAt,
    toInt64(toUnixTimestamp64Milli(received_at) - toUnixTimestamp64Milli(occurred_at)) AS laterMs,
    log_id AS logId, log_partition AS partition, toString(log_offset) AS offset, log_index AS index, payload
  FROM events WHERE id_at = UUIDv7ToDateTime(toUUID('{id}'), 'UTC') AND id = '{id}' LIMIT 1`;

interface EventRow {
  readonly id: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string | null;
  readonly buildId: string | null;
  readonly eventType: string;
  readonly overQuota: boolean;
  readonly sequence: string | null;
  readonly occurredAt: string;
  readonly receivedAt: string;
  readonly laterMs: number | string;
  readonly logId: string;
  readonly partition: number;
  readonly offset: string;
  readonly index: number;
  readonly payload: string;
}

function linksOf(admin: AdminEndpoint, { projectId, id }: EventRow): Promise<LinkRow[]> {
  return rows(
    admin,
    `SELECT report_id AS reportId, state, source, ${iso('changed_at')} AS changedAt FROM report_links
     WHERE project_id = '${projectId}' AND event_id = '${id}' ORDER BY changed_at, report_id`,
  );
}

interface LinkRow {
  readonly reportId: string;
  readonly state: string;
  readonly source: string;
  readonly changedAt: string;
}

async function rows<Row>(admin: AdminEndpoint, query: string): Promise<Row[]> {
  const { data }: { data: Row[] } = await admin.json('runSql', { body: { query } });
  return data;
}

function iso(column: string): string {
  return `replaceOne(toString(${column}), ' ', 'T') || 'Z'`;
}

function linesOf(row: EventRow, links: readonly LinkRow[]): string {
  const { sessionId, buildId, sequence } = row;
  const delayMs = Number(row.laterMs);
  const lines = [
    ['event', `${row.eventType}${row.overQuota ? ', over quota' : ''}`],
    ['happened', `${row.occurredAt} by the game’s clock`],
    [
      'received',
      `${row.receivedAt}, ${durationText(Math.abs(delayMs))} ${delayMs < 0 ? 'before' : 'after'} that`,
    ],
    ['log', `partition ${row.partition}, offset ${row.offset}, index ${row.index}, of log ${row.logId}`],
    ['ClickHouse', `events, tenant ${row.tenantId}, project ${row.projectId}`],
    ['session', `${sessionId ?? 'none'}${sequence === null ? '' : `, its event ${sequence}`}`],
    ['build', buildId ?? 'none'],
    ['payload', row.payload.replace(/[\r\n\t]/g, ' ')],
    ...links.map((link) => {
      return ['link', `${link.changedAt} ${link.state} to report ${link.reportId}, ${SOURCES[link.source]}`];
    }),
    ...(links.length === 0 ? [['link', 'to no report']] : []),
  ];
  return lines.map(([name = '', text = '']) => `${name.padEnd(10)}  ${cellText(text)}\n`).join('');
}

function durationText(ms: number): string {
  const [unit, name] = UNITS.find(([unitMs]) => ms >= 2 * unitMs) ?? [1, 'ms'];
  return `${(ms / unit).toFixed(unit === 1 ? 0 : 1)} ${name}`;
}

const UNITS = [
  [86_400_000, 'days'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
] as const;

const SOURCES: Readonly<Record<string, string>> = {
  inline: 'which brought it',
  named: 'which names it',
  session: 'in whose window it is',
};

function jsonOf(row: EventRow, links: readonly LinkRow[]): string {
  const { logId, partition, offset, index, laterMs: _, payload, sequence, ...event } = row;
  const log = { id: logId, partition, offset: Number(offset), index };
  const number = sequence === null ? null : Number(sequence);
  return withPayload({ ...event, sequence: number, log, links }, payload, 2);
}
