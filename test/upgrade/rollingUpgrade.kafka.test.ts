/**
 * An upgrade under load: the version before serves, each of its processes is replaced by one of this version, one after
 * the other; then it goes back in the same way. Whoever plays or reads meanwhile loses nothing.
 */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { expect, onTestFinished, test } from 'vitest';
import type { Service, ServiceName } from '../cluster/deployment.ts';
import type { Trial } from '../cluster/trial.ts';
import { aToken, eventually, onto, type TestProject } from '../e2e/builders.ts';
import type { Answer } from '../e2e/product.ts';
import type { Row } from '../faults/campaign/row.ts';
import { tryRows } from '../faults/campaign/tryRows.ts';
import { seedOfRun } from '../faults/seeded.ts';
import { stackCommands } from '../stack/stackCommands.ts';
import { checkOut, VERSION_BEFORE } from './versionBefore.ts';

const WITHIN_MS = 1_800_000;
/** Between two requests of a client: a small load, since both versions start their processes beside it. */
const PACE_MS = 1_000;
/** As long as a trial waits for its consumers: both versions run beside other tests. */
const SHOWN_WITHIN_MS = 180_000;
/** An old reader may not be able to read what a new writer writes: readers go first, and last on the way back. */
const READERS_FIRST: readonly ServiceName[] = ['projector', 'linker', 'ingest'];
const WRITERS_FIRST = READERS_FIRST.toReversed();
const seed = seedOfRun();

describeKafka(`the version before, ${VERSION_BEFORE}, and this one`, (engines) => {
  test(
    `replace each other under load, there and back: nothing is lost or doubled (QUESTLOG_SEED=${seed})`,
    async ({ skip }) => {
      const before = checkOut(VERSION_BEFORE);
      if ('lack' in before) {
        console.log(`skipped: no version to upgrade from: ${before.lack}`);
        return skip(before.lack);
      }
      onTestFinished(before.remove);
      const upgrade: Row = {
        name: 'upgrade',
        does: 'Each process is replaced by one of the other version: forth and back.',
        runs: 1,
        ground: async () => ({ engines, services: WRITERS_FIRST, entry: before.entry, end: async () => {} }),
        plant: async ({ trial }) => {
          trial.load.paceMs = PACE_MS;
          await replaceAll(trial, READERS_FIRST, undefined);
          await replaceAll(trial, WRITERS_FIRST, before.entry);
          return { counts: {} };
        },
      };
      // The engines are the run's, which nothing here breaks: a folder of theirs is never made.
      const noStack = join(tmpdir(), 'questlog-no-stack');
      const stack = { ...stackCommands(engines.stackDir ?? noStack), do: async () => '' };
      const { findings, ...held } = await tryRows({ engines, stack }, [upgrade], {
        seed,
        isShort: true,
        say,
      });
      say(JSON.stringify(held));
      expect(findings).toEqual([]);
    },
    WITHIN_MS,
  );
});

function say(line: string): void {
  console.log(`upgrade: ${line}`);
}

/**
 * Starts the successors of a service's processes, and stops those one after the other once both versions have had work.
 * @param entry of the version that the others make place for; undefined: this one.
 */
async function replaceAll(
  trial: Trial,
  order: readonly ServiceName[],
  entry: string | undefined,
): Promise<void> {
  const { deployment, load } = trial;
  deployment.entry = entry;
  for (const name of order) {
    const olds = deployment.running(name);
    const started = await deployment.startAll(...olds.map(() => name));
    if (name === 'ingest') await serveEachOther(trial, olds[0] as Service, started[0] as Service);
    await trial.goesOn();
    for (const old of olds) {
      // As the page on upgrades has it: a request that comes as a listener closes finds nobody.
      await old.leave();
      expect(await old.stop(), `the exit code of the ${name}`).toBe(0);
    }
    const which = entry === undefined ? 'this version' : 'the version before';
    say(
      `each ${name} is of ${which}; ${load.unanswered} requests without an answer, ${load.refused} refused`,
    );
  }
}

/** What one has taken, another shows; and tokens hold at both, whoever made or revoked them. */
async function serveEachOther(trial: Trial, one: Service, other: Service): Promise<void> {
  const { load, projects, projected, linked } = trial;
  const [project] = projects as [TestProject];
  /** Waits: consumers that have just moved may be behind. @returns the body. */
  const asked = async (ask: () => Promise<Answer>, wanted: number): Promise<string> => {
    const look = async () => {
      const answer = await ask();
      const { status } = answer;
      if (status !== wanted) await Promise.all([projected, linked].map((watch) => watch.look()));
      return { status, body: answer.text(), behind: [projected, linked].flatMap(({ behind }) => behind) };
    };
    return (await eventually(look, ({ status }) => status === wanted, SHOWN_WITHIN_MS)).body;
  };
  for (const [writer, reader] of [
    [one, other],
    [other, one],
  ] as const) {
    const taken = await load.probe(project, { at: writer });
    expect(taken.status).toBe(201);
    const [{ id }] = taken.json();
    const shown = await asked(() => onto(project, reader).get(`/v1/events/${id}`), 200);
    expect(JSON.parse(shown).payload).toEqual(taken.json()[0].payload);

    const { id: tokenId, token } = await aToken(writer, project.projectId, { scopes: ['read'] });
    await asked(() => onto({ ...project, token }, reader).get(`/v1/events/${id}`), 200);
    expect((await reader.admin('DELETE', `/admin/tokens/${tokenId}`)).status).toBe(204);
    await asked(() => onto({ ...project, token }, writer).get(`/v1/events/${id}`), 401);
  }
}
