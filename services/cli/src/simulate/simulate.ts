/** The command `questlog simulate`. It sends a simulated game to a new project and checks that ClickHouse has every event. */
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { eventId } from '@questlog/schemas/uuid';
import { Command, Option } from 'commander';
import { type AdminEndpoint, type Connection, type GameEndpoint, gameEndpoint } from '../connection.ts';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { example, wholeNumber } from '../manage.ts';
import { count, Progress } from '../print.ts';
import { type GameRequest, mergeRequests, type Visit, visitsOf } from './core/game.ts';
import { uploadedFiles } from './crashFiles.ts';

const TENANT_NAME = 'Simulated studio';
const MINUTE_MS = 60_000;
const DAY_MS = 1_440 * MINUTE_MS;
const MAX_CONCURRENT_VISITS = 64;
const POLL_MS = 500;
const MAX_IDLE_MS = 60_000;

interface Options {
  readonly players: number;
  readonly minutes: number;
  readonly days?: number;
  readonly speed: 'live' | 'max';
  readonly seed?: number;
  readonly json?: boolean;
}

interface Counts {
  readonly events: number;
  readonly reports: number;
}

export function simulateCommand(connect: () => Promise<Connection>): Command {
  const command = new Command('simulate')
    .description('simulate a game in a new project')
    .option('--players <n>', 'number of players', wholeNumber, 200)
    .option('--minutes <n>', 'duration of a live game', wholeNumber, 5)
    .option(
      '--days <n>',
      'simulate whole past days (UTC) up to last midnight instead of a live game',
      wholeNumber,
    )
    .addOption(
      new Option('--speed <speed>', 'live: in real time; max: as fast as Questlog responds')
        .choices(['live', 'max'])
        .default('live'),
    )
    .option(
      '--seed <n>',
      'seed of the game; the same seed gives the same game (default: random)',
      wholeNumber,
    )
    .option('--json', 'print JSON');
  example(
    command,
    'questlog simulate --players 200 --minutes 5\n  questlog simulate --days 30 --speed max --seed 7',
  );
  return command.action(async (options: Options) => {
    if (options.days !== undefined && options.speed === 'live') {
      command.error('error: --days needs --speed max, because past days cannot be simulated in real time');
    }
    const { admin, game } = await connect();
    const seed = options.seed ?? randomBytes(4).readUInt32BE();
    const span = spanOf(options, Date.now());
    const { tenantId, projectId, token } = await newProject(admin, `Fox Run, seed ${seed}`);
    const { sent, stopped } = await play(gameEndpoint(game.url, token), options, { seed, ...span });
    const stored = await waitUntilStored(admin, projectId, sent);
    const period = options.days === undefined ? {} : { from: dayOf(span.fromMs), to: dayOf(span.toMs) };
    if (options.json === true) {
      const all = { tenantId, projectId, ...period, seed, stopped, sent, held: stored };
      process.stdout.write(`${JSON.stringify(all, null, 2)}\n`);
    } else {
      process.stdout.write(
        `project ${projectId}, seed ${seed}\nsent ${countsText(sent)}\nin ClickHouse ${countsText(stored)}\n`,
      );
      if (options.days !== undefined) {
        const named = Object.entries({ tenant: tenantId, project: projectId, ...period });
        const parameters = named.map(([name, value]) => `--param ${name}=${value}`);
        process.stderr.write(`parameters for questlog sql: ${parameters.join(' ')}\n`);
      }
    }
    if (stopped) process.exitCode = INTERRUPTED;
    if (stored.events !== sent.events || stored.reports !== sent.reports) process.exitCode = 1;
  });
}

async function newProject(
  admin: AdminEndpoint,
  name: string,
): Promise<{ tenantId: string; projectId: string; token: string }> {
  const tenants = await admin.json('listTenants');
  const { id: tenantId } =
    tenants.find((tenant) => tenant.name === TENANT_NAME) ??
    (await admin.json('createTenant', { body: { name: TENANT_NAME } }));
  const project = await admin.json('createProject', { body: { tenantId, name, revision: 'B' } });
  const { SCOPES } = await import('@questlog/schemas/topics/directoryEntry');
  const { token } = await admin.json('createToken', {
    body: { projectId: project.id, scopes: [...SCOPES] },
  });
  return { tenantId, projectId: project.id, token };
}

interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** A simulation of past days covers whole UTC days. Its daily counts then depend only on the seed, not on the time of day. */
function spanOf({ minutes, days }: Options, nowMs: number): Span {
  if (days === undefined) return { fromMs: nowMs, toMs: nowMs + minutes * MINUTE_MS };
  const toMs = Math.floor(nowMs / DAY_MS) * DAY_MS;
  return { fromMs: toMs - days * DAY_MS, toMs };
}

async function play(
  game: GameEndpoint,
  { players, days, speed }: Options,
  { seed, ...span }: Span & { readonly seed: number },
): Promise<{ sent: Counts; stopped: boolean }> {
  const stop = new AbortController();
  onInterrupt(() => stop.abort());
  const sent = { events: 0, reports: 0 };
  const startedMs = performance.now();
  const progress = new Progress();
  let day = '';
  const untilDue = async (atMs: number): Promise<void> => {
    const leftMs = speed === 'live' ? atMs - Date.now() : 0;
    if (leftMs > 0) await delay(leftMs, undefined, { signal: stop.signal }).catch(() => undefined);
  };
  const playVisit = async ({ session, requests }: Visit): Promise<void> => {
    await game.retried('registerSession', { body: session });
    for (const request of speed === 'max' ? mergeRequests(requests) : requests) {
      await untilDue(request.atMs);
      if (stop.signal.aborted) return;
      await send(game, request);
      sent.events += request.events;
      if (request.id === 'createReport') sent.reports += 1;
      const perSecond = Math.round((sent.events * 1000) / (performance.now() - startedMs));
      const pace =
        speed === 'live'
          ? `${Math.max(0, Math.round((span.toMs - Date.now()) / 1000))} s left`
          : `${count(perSecond)} a second`;
      progress.show(`${day === '' ? '' : `${day}, `}${countsText(sent)}, ${pace}`);
    }
  };
  let failure: unknown;
  const running = new Set<Promise<void>>();
  for (const visit of visitsOf({ seed, players, ...span })) {
    await untilDue(visit.atMs);
    if (stop.signal.aborted) break;
    if (days !== undefined) {
      day = `day ${count(1 + Math.floor((visit.atMs - span.fromMs) / DAY_MS))} of ${count(days)}`;
    }
    const visiting = playVisit(visit)
      .catch((error: unknown) => {
        failure ??= error;
        stop.abort();
      })
      .finally(() => running.delete(visiting));
    running.add(visiting);
    if (speed === 'max' && running.size >= MAX_CONCURRENT_VISITS) await Promise.race(running);
  }
  await Promise.all(running);
  const stopped = stop.signal.aborted;
  progress.clear();
  if (stopped) {
    process.stderr.write(`stopped${day === '' ? '' : ` on ${day}`}; sent ${countsText(sent)}\n`);
  }
  if (failure !== undefined) throw failure;
  return { sent, stopped };
}

async function send(game: GameEndpoint, request: GameRequest): Promise<void> {
  const { id, isAnswerLost, logLines } = request;
  const key = eventId(Date.now(), 0, randomBytes(8));
  const body =
    logLines === undefined
      ? request.body
      : { ...request.body, attachments: await uploadedFiles(game, logLines) };
  const headers = id === 'createEvents' ? { 'Idempotency-Key': key } : {};
  for (let times = isAnswerLost ? 2 : 1; times > 0; times--) {
    await (await game.retried(id, { body: JSON.stringify(body), headers })).arrayBuffer();
  }
}

/** Waits until ClickHouse has all events and reports, or until no new rows arrive. Returns the number of stored rows. */
async function waitUntilStored(admin: AdminEndpoint, projectId: string, sent: Counts): Promise<Counts> {
  const query = `SELECT (SELECT count() FROM events WHERE project_id = '${projectId}') AS events,
    (SELECT count() FROM reports WHERE project_id = '${projectId}') AS reports FORMAT JSONCompactEachRow`;
  let stored: Counts = { events: 0, reports: 0 };
  const progress = new Progress();
  for (let idleSinceMs = performance.now(); performance.now() - idleSinceMs < MAX_IDLE_MS; ) {
    const answer = await admin.retried('runSql', { body: { query } });
    const [events, reports]: [unknown, unknown] = JSON.parse(await answer.text());
    const now = { events: Number(events), reports: Number(reports) };
    if (now.events + now.reports > stored.events + stored.reports) idleSinceMs = performance.now();
    stored = now;
    if (stored.events >= sent.events && stored.reports >= sent.reports) break;
    progress.show(`ClickHouse has ${countsText(stored)} of ${countsText(sent)}`);
    await delay(POLL_MS);
  }
  progress.clear();
  return stored;
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function countsText({ events, reports }: Counts): string {
  return `${count(events)} events, ${count(reports)} report${reports === 1 ? '' : 's'}`;
}
