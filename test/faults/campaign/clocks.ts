/** Rows of the campaign: clocks that differ, and the end of a month. */
import { fileURLToPath } from 'node:url';
import type { Deployment, ServiceName } from '../../cluster/deployment.ts';
import { type Ground, Lacking, type OwnEngines, type Row } from './row.ts';

const CLOCK = fileURLToPath(new URL('./shiftedClock.ts', import.meta.url));
const RUNS = 5;
const APART_MS = 600_000;
const SERVICES: readonly ServiceName[] = ['ingest', 'linker', 'projector', 'operations'];
/** Time from the start of the services to the end of the month, so that the month ends during the load also on a busy machine. */
const ENDS_AFTER_MS = 120_000;

export const CLOCKS: readonly Row[] = [
  {
    name: 'clocks-apart',
    does: 'In each service, the clock of one process is ten minutes ahead, the other clock ten minutes behind.',
    runs: RUNS,
    cutsOff: true,
    plant: async ({ trial }) => {
      const { deployment } = trial;
      for (const name of SERVICES) {
        const right = deployment.running(name);
        const shifts = [APART_MS, -APART_MS];
        await Promise.all(shifts.map((shiftMs) => deployment.start(name, clockEnv(shiftMs))));
        for (const service of right) await service.kill();
      }
      await trial.waitForProgress();
      return { counts: { 'clocks off': 2 * SERVICES.length } };
    },
  },
  {
    name: 'month-end',
    does: 'Kills a projector and an ingest at the end of a month.',
    runs: RUNS,
    cutsOff: true,
    ground: shortlyBeforeMonthEnd,
    plant: async ({ trial: { deployment }, ground, wait, random }) => {
      const leftMs = (ground?.endsAtMs ?? 0) - Date.now();
      if (leftMs < 0) throw new Lacking('the month had ended before everything was under load');
      await wait(Math.max(0, leftMs + random.between(-1_000, 1_000)));
      for (const name of ['projector', 'ingest'] as const) {
        await deployment.running(name)[0]?.kill();
        await deployment.start(name);
      }
      return { counts: { 'months ended': 1 }, check: () => monthsOf(deployment) };
    },
  },
];

function clockEnv(shiftMs: number): Record<string, string> {
  return { NODE_OPTIONS: `--import=${CLOCK}`, TEST_CLOCK_SHIFT_MS: String(shiftMs) };
}

/** Sets all clocks to shortly before midnight UTC of a month's last day. */
async function shortlyBeforeMonthEnd({ engines }: OwnEngines): Promise<Ground> {
  const now = new Date();
  const next = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1);
  const endsAtMs = now.getTime() + ENDS_AFTER_MS;
  const shiftMs = next - endsAtMs;
  return { engines, env: clockEnv(shiftMs), shiftMs, endsAtMs, end: async () => {} };
}

/** Checks that both months have events, and that the quota counts each event in its month. */
async function monthsOf(deployment: Deployment): Promise<string[]> {
  const months = await deployment.sql<{ month: string; used: string; events: string }>(
    `SELECT toString(month) AS month, sum(used) AS used, sum(events) AS events FROM
       (SELECT month, used, 0 AS events FROM quota_usage
        UNION ALL SELECT toStartOfMonth(received_at) AS month, 0 AS used, count() AS events FROM events GROUP BY month)
     GROUP BY month`,
  );
  return [
    ...(months.length < 2 ? ['the load has seen no end of a month'] : []),
    ...months.flatMap(({ month, used, events }) =>
      used === events ? [] : [`the quota of ${month} counts ${used} of ${events} events`],
    ),
  ];
}
