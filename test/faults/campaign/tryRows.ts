/** Tries runs of the campaign on a deployment under load. A run injects its faults in turn, and has one outcome. */
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '@questlog/runtime/process/errors';
import type { VerifyLine } from '@questlog/schemas/http/ledger';
import { auditDeployment } from '../../cluster/auditDeployment.ts';
import type { Service, ServiceName } from '../../cluster/deployment.ts';
import { startTrial, type Trial } from '../../cluster/trial.ts';
import { eventually } from '../../e2e/builders.ts';
import { seeded } from '../seeded.ts';
import {
  type Chances,
  type Held,
  Lacking,
  type OwnEngines,
  PEAK,
  type Planted,
  type Row,
  type Site,
} from './row.ts';

export interface Outcome extends Held {
  readonly seconds: number;
}

const TWO_OF_EACH: readonly ServiceName[] = [
  'ingest',
  'ingest',
  'operations',
  'linker',
  'linker',
  'projector',
  'projector',
];
/** Maximum load before a fault. */
const LOADED_MS = 5_000;
const DRAINED_WITHIN_S = 60;
const READY_WITHIN_MS = 90_000;
/** Minimum events of a run, because fewer prove nothing. */
const MIN_EVENTS = 500;
const MIN_LINKS = 20;
/** Minimum reports of a run. Fewer reports can have too few links. */
const MIN_REPORTS = 6;
const MAX_FINDINGS = 20;

/** One run of the campaign: its faults happen one after the other, and the run has one verdict. */
export interface CampaignRun {
  readonly rows: readonly Row[];
  readonly seed: number;
}

interface How {
  /** True for shorter waits, a lower rate, and no limit for the recovery, because other tests run too. */
  readonly isShort: boolean;
  say(line: string): void;
}

/** @returns the outcome of a run with its own deployment. @throws Lacking if a row cannot run on this machine */
export async function tryRows(
  own: OwnEngines,
  rows: readonly Row[],
  { seed, ...how }: How & Pick<CampaignRun, 'seed'>,
): Promise<Outcome> {
  const outcomes: Outcome[] = [];
  await tryRuns(own, [{ rows, seed }], { ...how, report: (outcome) => outcomes.push(outcome) });
  const [outcome] = outcomes;
  if (outcome === undefined) throw new Error('the run has no outcome');
  return outcome;
}

/**
 * Tries runs one after the other on one deployment, and reports each outcome. Returns after the first run that has findings,
 * because its deployment may be broken.
 * @param runs runs of one environment. @throws Lacking if a row cannot run on this machine
 */
export async function tryRuns(
  own: OwnEngines,
  runs: readonly CampaignRun[],
  { isShort, say, report }: How & { report(outcome: Outcome): void },
): Promise<void> {
  let startedMs = performance.now();
  const end = (held: Held): void => {
    report({ ...held, seconds: secondsSince(startedMs) });
    startedMs = performance.now();
  };
  const chancesOf = (seed: number): Chances => ({
    ...{ random: seeded(seed), isShort, say },
    wait: (millis) => delay(millis),
  });
  const [{ rows, seed } = { rows: [], seed: 0 }] = runs;
  const held = await rows[0]?.alone?.(chancesOf(seed));
  if (held !== undefined) return end(held);
  const ground = await rows[0]?.ground?.(own);
  let trial: Trial | undefined;
  try {
    const engines = ground?.engines ?? own.engines;
    const env = { KAFKA_REPLICATION_FACTOR: '3', ...ground?.env };
    trial = await startTrial(engines, ground?.services ?? TWO_OF_EACH, seed, { ...ground, env });
    say('the load has begun');
    const audited = { events: 0, links: 0 };
    for (const [at, run] of runs.entries()) {
      if (at > 0) {
        trial.load.renew(seeded(run.seed));
        trial.load.start();
      }
      const site = { ...own, ...chancesOf(run.seed), trial, ground };
      const isLast = at === runs.length - 1;
      const outcome = await new Run(site, run.rows, { audited, isLast }).outcome();
      end(outcome);
      if (outcome.findings.length > 0) return;
    }
  } finally {
    // A failed cleanup is not a finding, because the next run checks the stack.
    await trial?.end().catch((error: unknown) => say(`it cannot be removed: ${messageOf(error)}`));
    await ground?.end();
  }
}

interface RunOptions {
  /** Totals of the deployment at the last audit. */
  readonly audited: { events: number; links: number };
  /** True if the deployment has no further run, so that the audit can stop the services. */
  readonly isLast: boolean;
}

class Run {
  readonly #site: Site;
  readonly #rows: readonly Row[];
  readonly #options: RunOptions;
  readonly #before: Pick<Held, 'refused' | 'unanswered'>;
  readonly #findings: string[] = [];
  readonly #counts: Record<string, number> = {};
  #drainSeconds = 0;

  constructor(site: Site, rows: readonly Row[], options: RunOptions) {
    const { refused, unanswered } = site.trial.load;
    this.#site = site;
    this.#rows = rows;
    this.#options = options;
    this.#before = { refused, unanswered };
  }

  async outcome(): Promise<Held> {
    const { trial, stack } = this.#site;
    const { load } = trial;
    const held = await this.#run().catch(async (error: unknown) => {
      // Repairs what the fault left broken.
      await stack.do('up').catch((left: unknown) => this.#findings.push(messageOf(left)));
      if (error instanceof Lacking) throw error;
      this.#findings.unshift(messageOf(error), ...trial.deployment.services.flatMap(lastErrors));
    });
    return {
      findings: this.#findings.slice(0, MAX_FINDINGS),
      drainSeconds: this.#drainSeconds,
      events: held?.events ?? 0,
      links: held?.links ?? 0,
      refused: load.refused - this.#before.refused,
      unanswered: load.unanswered - this.#before.unanswered,
      counts: this.#counts,
    };
  }

  /** Returns the number of events and links that this run added. */
  async #run(): Promise<{ events: number; links: number }> {
    const { trial, isShort, say } = this.#site;
    const { audited, isLast } = this.#options;
    const { deployment, load } = trial;
    const filedBefore = load.reports.length;
    await trial.waitForProgress();
    // Later runs on the same deployment keep the rate.
    if (!isShort && audited.events === 0) this.#counts[PEAK] = Math.round(await load.halfOfPeak());
    const planted: Planted[] = [];
    for (const row of this.#rows) planted.push(await this.#plant(row));
    const isReady = ({ length }: readonly string[]) => length === 0;
    await eventually(() => problemsOf(deployment.services), isReady, READY_WITHIN_MS);
    const filed = async () => load.reports.length - filedBefore;
    await eventually(filed, (reports) => reports >= MIN_REPORTS, READY_WITHIN_MS);
    await trial.settle();
    say('everything is processed');
    for (const [at, { check }] of planted.entries()) {
      const findings = (await check?.()) ?? [];
      this.#findings.push(...findings.map((finding) => `${this.#rows[at]?.name}: ${finding}`));
    }
    const summary = await this.#verify();
    say('verified');
    const { findings, ...totals } = await auditDeployment(deployment, load, isLast ? undefined : trial.log);
    this.#findings.push(...findings);
    const [erased] = await deployment.sql<{ events: number }>(
      'SELECT toUInt32(sum(events)) AS events FROM erased_events',
    );
    const projected = totals.events + (erased?.events ?? 0);
    if (summary !== undefined && summary !== projected)
      this.#findings.push(`verify found ${summary} events, and there are ${projected} with erased events`);
    const [events, links] = [totals.events - audited.events, totals.links - audited.links];
    Object.assign(audited, totals);
    if (events < MIN_EVENTS || links < MIN_LINKS)
      this.#findings.push(`${events} events and ${links} links prove nothing`);
    return { events, links };
  }

  async #plant(row: Row): Promise<Planted> {
    const { trial, isShort, random, wait, say } = this.#site;
    const before = trial.load.unanswered;
    const begunMs = performance.now();
    await wait(random.between(0, isShort ? LOADED_MS / 10 : LOADED_MS));
    const planted = (await row.plant?.(this.#site)) ?? { counts: {} };
    const wholeMs = performance.now();
    say(`${row.name}: whole again after ${secondsSince(begunMs)} s`);
    await trial.waitForProgress();
    const seconds = secondsSince(wholeMs);
    say(`${row.name}: drained after ${seconds} s`);
    this.#drainSeconds = Math.max(this.#drainSeconds, seconds);
    if (!isShort && seconds > DRAINED_WITHIN_S)
      this.#findings.push(`${row.name}: drained after ${seconds} s, ${DRAINED_WITHIN_S} s are the most`);
    const unanswered = trial.load.unanswered - before;
    if (unanswered > 0 && !row.cutsOff)
      this.#findings.push(
        `${row.name}: ${unanswered} requests stayed without an answer, the last: ${trial.load.lastFailure}`,
      );
    for (const [name, count] of Object.entries(planted.counts))
      this.#counts[name] = (this.#counts[name] ?? 0) + count;
    return planted;
  }

  /**
   * Runs `verify` at each process that serves operators, because a recount ends at the time of its clock. @returns the events of the latest
   * recount. Undefined if all were aborted
   */
  async #verify(): Promise<number | undefined> {
    const held: number[] = [];
    const { deployment } = this.#site.trial;
    const operations = deployment.running('operations');
    // In a version before operations, every ingest serves operators.
    for (const service of operations.length > 0 ? operations : deployment.running('ingest'))
      held.push(...(await this.#verifyAt(service)));
    return held.length === 0 ? undefined : Math.max(...held);
  }

  async #verifyAt(service: Service): Promise<number[]> {
    const answer = await service.admin('POST', '/admin/verify', { from: new Date(Date.now() - HOUR_MS) });
    const lines = answer.text().trimEnd().split('\n');
    let held: number | undefined;
    for (const line of lines.map((text): VerifyLine => JSON.parse(text))) {
      if (line.kind === 'failed') this.#findings.push(`verify: ${line.detail}`);
      if (line.kind === 'difference')
        this.#findings.push(
          `verify: ${line.what}, ${line.expected} expected, ${line.found} found, append ${line.appendId} at ${line.partition}/${line.offset}`,
        );
      if (line.kind === 'summary') held = line.projected.events + line.cut;
    }
    if (held === undefined) this.#findings.push(`verify was answered ${answer.status}, without a summary`);
    return held === undefined ? [] : [held];
  }
}

const HOUR_MS = 3_600_000;

/** Start of an error entry in the JSON log. */
const ERROR_LINE = '{"level":"error",';

/** Returns the last error entries of a process, which often show the cause of an aborted run. */
function lastErrors({ name, stderr }: Service): string[] {
  const errors = stderr()
    .split('\n')
    .filter((line) => line.startsWith(ERROR_LINE));
  return errors.slice(-2).map((line) => `${name} logged ${line}`);
}

/** Returns the problems that `/readyz` reports for the services. */
async function problemsOf(services: readonly Service[]): Promise<string[]> {
  const answers = await Promise.all(services.filter(({ isUp }) => isUp).map((service) => service.readyz()));
  return answers.flatMap(({ problems }) => Object.values(problems));
}

function secondsSince(atMs: number): number {
  return Math.round((performance.now() - atMs) / 100) / 10;
}
