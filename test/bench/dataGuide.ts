/**
 * `npm run bench:data-guide`: runs the queries of `docs/data-guide.md` on 20 million events. A query runs with the reader
 * account or, if it needs more memory than a reader has, with the product's account. Fails if a query is rejected or returns no
 * rows.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startEmbeddedClickHouse } from '@questlog/runtime/clickhouse/chdb/embeddedClickHouse';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { type Question, questionsOfGuide } from '../dataGuide/guidePage.ts';
import { eventually } from '../e2e/builders.ts';
import { EVENTS_A_SESSION, fillMonth, MONTH, OWNER, SESSIONS_A_PLAYER } from './dataGuide/fillMonth.ts';
import { page } from './figuresPage.ts';

const MIGRATIONS = fileURLToPath(new URL('../../deploy/clickhouse', import.meta.url));
const ACCESS = { username: 'bench', password: 'bench', database: 'questlog' };
const READER = { username: 'reader', password: 'read-only' };
const RUNS = 3;
const MEMORY_LIMIT_EXCEEDED = '241';
const MERGED_WITHIN_MS = 120_000;

interface Timing {
  readonly question: Question;
  readonly medianMs: number;
  /** True if the query fits into the memory limit of the reader account. */
  readonly isForReaders: boolean;
}

const { values } = parseArgs({
  options: {
    events: { type: 'string', default: '20000000' },
  },
});
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const report = page(figures(Number(values.events), await measure(Number(values.events))));
say(`\n${report}`);

async function measure(events: number): Promise<Timing[]> {
  const directory = mkdtempSync(join(tmpdir(), 'questlog-bench-data-guide-'));
  const server = await startEmbeddedClickHouse({ directory, reader: READER, ...ACCESS });
  const store = await openMigrated({ url: server.url, ...ACCESS }, MIGRATIONS);
  try {
    await fillMonth(store, events, say);
    await eventually(
      () => mergesOf(store),
      (merges) => merges === 0,
      MERGED_WITHIN_MS,
    );
    const timings: Timing[] = [];
    for (const question of questionsOfGuide()) {
      const timing = await timed(server.url, question);
      say(`${question.title} ${timing.medianMs.toFixed(0)} ms`);
      timings.push(timing);
    }
    return timings;
  } finally {
    await store.close();
    await server.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

async function mergesOf(store: Store): Promise<number> {
  const [row] = await store.query<{ merges: string }>('SELECT count() AS merges FROM system.merges');
  return Number(row?.merges ?? 0);
}

async function timed(url: string, question: Question): Promise<Timing> {
  const first = await asked(url, question, READER);
  const account = first.code === MEMORY_LIMIT_EXCEEDED ? ACCESS : READER;
  const runsMs: number[] = [];
  for (let run = 0; run < RUNS; run += 1) {
    const startedAtMs = performance.now();
    const { problem } = await asked(url, question, account);
    if (problem !== undefined) throw new Error(`"${question.title}": ${problem}`);
    runsMs.push(performance.now() - startedAtMs);
  }
  const medianMs = runsMs.sort((a, b) => a - b)[Math.floor(RUNS / 2)] ?? 0;
  return { question, medianMs, isForReaders: account === READER };
}

interface Answer {
  readonly problem?: string;
  readonly code?: string | null;
}

async function asked(url: string, { sql }: Question, account: typeof READER): Promise<Answer> {
  const parameters = new URLSearchParams({
    database: ACCESS.database,
    default_format: 'JSON',
    param_tenant: OWNER.tenant,
    param_project: OWNER.project,
    param_from: MONTH.from,
    param_to: MONTH.to,
  });
  const password = Buffer.from(`${account.username}:${account.password}`).toString('base64');
  const response = await fetch(`${url}/?${parameters}`, {
    method: 'POST',
    body: sql,
    headers: { authorization: `Basic ${password}` },
  });
  const text = await response.text();
  if (!response.ok) {
    return { problem: text, code: response.headers.get('x-clickhouse-exception-code') };
  }
  const { rows }: { rows: number } = JSON.parse(text);
  return rows === 0 ? { problem: 'there is no row' } : {};
}

function figures(events: number, timings: readonly Timing[]): string[] {
  const sessions = Math.ceil(events / EVENTS_A_SESSION);
  const players = Math.ceil(sessions / SESSIONS_A_PLAYER);
  const [eventCount, sessionCount, playerCount] = [events, sessions, players].map((count) =>
    count.toLocaleString('en-US'),
  );
  return [
    '',
    `| ${eventCount} events, ${sessionCount} sessions, ${playerCount} players | median of ${RUNS} |`,
    '| --- | --- |',
    ...timings.map(({ question: { number }, medianMs, isForReaders }) => {
      const memory = isForReaders ? '' : ', beyond a reader’s memory';
      return `| ${number} | ${(medianMs / 1000).toFixed(2)} s${memory} |`;
    }),
  ];
}
