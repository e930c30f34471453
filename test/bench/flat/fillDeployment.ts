/** Fills the benchmark's deployment with old sessions and open reports. */
import { randomUUID } from 'node:crypto';
import type { TestProject } from '../../e2e/builders.ts';
import type { ClusterEngines } from '../../e2e/cluster.ts';
import { queryOn } from '../clickhouseQuery.ts';

export interface StoredSessions {
  readonly tenantId: string;
  readonly projectId: string;
  readonly count: number;
}

/** Rows of one statement, which the engine would otherwise reject at half a gigabyte of memory. */
const STEP = 250_000;
/** Multiplier that changes the order of the ids. */
const SPREAD_OUT = 0x9e37_79b9_7f4b;
const MASK = 0xffff_ffff_ffffn;
const PREFIX = '5e551000-0000-4000-8000-';

/**
 * Writes sessions to ClickHouse as if they had been projected long ago. @param database name of the deployment. @returns the ids
 * of the sessions by number
 */
export async function storeSessions(
  engines: ClusterEngines,
  database: string,
  { tenantId, projectId, count }: StoredSessions,
  say: (line: string) => void,
): Promise<(i: number) => string> {
  for (let from = 0; from < count; from += STEP) {
    say(`${from.toLocaleString('en-US')} of ${count.toLocaleString('en-US')} sessions are stored`);
    const tail = `lower(leftPad(hex(bitAnd(number * ${SPREAD_OUT}, ${MASK})), 12, '0'))`;
    await queryOn(
      engines.clickhouseUrl,
      `INSERT INTO ${database}.sessions (tenant_id, project_id, id, registered_at, lane, log_partition, log_offset)
       SELECT '${tenantId}', '${projectId}', toUUID(concat('${PREFIX}', ${tail})), now64(3), 0, 0, number
       FROM numbers(${from}, ${Math.min(STEP, count - from)})`,
    );
  }
  // Waits for merges, which would otherwise run during the measurement.
  say('ClickHouse merges the sessions');
  await queryOn(engines.clickhouseUrl, `OPTIMIZE TABLE ${database}.sessions FINAL`);
  return (i) => PREFIX + ((BigInt(i) * BigInt(SPREAD_OUT)) & MASK).toString(16).padStart(12, '0');
}

/** Window of the reports, longer than the run. */
const OPEN_FOR_MS = 3_600_000;
const TOLD_EACH = 10_000;

export async function registerSessions(project: TestProject, count: number): Promise<string[]> {
  const ids: string[] = [];
  await each(count, async () => void ids.push(await project.session()));
  return ids;
}

/** Files reports for the sessions in turn. @throws Error if a report is rejected. */
export async function fileReports(
  project: TestProject,
  sessions: readonly string[],
  count: number,
  say: (line: string) => void,
): Promise<void> {
  await each(count, async (i) => {
    if (i % TOLD_EACH === 0)
      say(`${i.toLocaleString('en-US')} of ${count.toLocaleString('en-US')} reports are filed`);
    const sessionId = sessions[i % sessions.length];
    const window = { beforeMs: 0, afterMs: OPEN_FOR_MS };
    const body = { sessionId, clientRequestId: randomUUID(), window, report: { title: 'stuck in a wall' } };
    const { status, text } = await project.report(body);
    if (status !== 201) throw new Error(`a report was answered ${status}: ${text()}`);
  });
}

/** Maximum concurrent requests of `each`. */
const AT_ONCE = 16;

/** Runs `work` for 0 … count-1. */
async function each(count: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}
