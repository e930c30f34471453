/**
 * Tests a rolling upgrade under load: replaces each process of the previous version by this version, one after another, and
 * then back. Clients lose no data.
 */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { expect, test } from 'vitest';
import type { Service, ServiceName } from '../cluster/deployment.ts';
import type { Trial } from '../cluster/trial.ts';
import { aToken, eventually, onto, type TestProject } from '../e2e/builders.ts';
import type { Answer } from '../e2e/product.ts';
import { type Running, running } from '../e2e/questlogCommand.ts';
import type { Row } from '../faults/campaign/row.ts';
import { tryRows } from '../faults/campaign/tryRows.ts';
import { seedOfRun } from '../faults/seeded.ts';
import { stackCommands } from '../stack/stackCommands.ts';
import { checkOut, VERSION_BEFORE } from './versionBefore.ts';

const WITHIN_MS = 1_800_000;
/** Time limit of a read, the same as for the consumers of a trial, because other tests run at the same time. */
const SHOWN_WITHIN_MS = 180_000;
/** Order of an upgrade. An old reader may be unable to read the records of a new writer. A downgrade uses the reverse order. */
const READERS_FIRST: readonly ServiceName[] = ['projector', 'linker', 'operations', 'ingest'];
/** Services of the version before, whose ingest serves operators. */
const SERVICES_BEFORE: readonly ServiceName[] = ['ingest', 'linker', 'projector'];
const WRITERS_FIRST = READERS_FIRST.toReversed();
const seed = seedOfRun();

describeKafka(`the previous version, ${VERSION_BEFORE}, and this version`, (engines) => {
  test(
    `replace each other under load without lost or duplicate events (QUESTLOG_SEED=${seed})`,
    async ({ skip }) => {
      const before = checkOut(VERSION_BEFORE);
      if ('lack' in before) {
        console.log(`skipped: no version to upgrade from: ${before.lack}`);
        return skip(before.lack);
      }
      const upgrade: Row = {
        name: 'upgrade',
        does: 'Each process is replaced by one of the other version: forth and back.',
        runs: 1,
        ground: async () => ({
          engines,
          services: SERVICES_BEFORE,
          env: { KAFKA_REPLICATION_FACTOR: '1' },
          entry: before.entry,
          // If a retry of a lenient request reaches an ingest of the other version, events can be stored twice (decision 0056).
          repeatsLenient: false,
          end: async () => {},
        }),
        plant: async ({ trial }) => {
          await replaceAll(trial, READERS_FIRST, undefined);
          await replaceAll(trial, WRITERS_FIRST, before.entry);
          return { counts: {} };
        },
      };
      // Uses the engines of the run, which this test does not break, so the folder is never created.
      const noStack = join(tmpdir(), 'questlog-no-stack');
      const stack = { ...stackCommands(engines.stackDir ?? noStack), do: async () => '' };
      const { findings, ...held } = await tryRows({ engines, stack }, [upgrade], {
        seed,
        isShort: true,
        say: print,
      });
      print(JSON.stringify(held));
      expect(findings).toEqual([]);
    },
    WITHIN_MS,
  );
});

function print(line: string): void {
  console.log(`upgrade: ${line}`);
}

/**
 * Starts new processes of each service, and stops the old processes one after another after both versions had work.
 * @param entry entry point of the new version. Undefined for this version.
 */
async function replaceAll(
  trial: Trial,
  order: readonly ServiceName[],
  entry: string | undefined,
): Promise<void> {
  const { deployment, load } = trial;
  deployment.entry = entry;
  for (const name of order) {
    const oldServices = deployment.running(name);
    const isNewService = name === 'operations';
    const names = isNewService ? (entry === undefined ? [name] : []) : oldServices.map(() => name);
    const started = await deployment.startAll(...names);
    if (name === 'ingest') await serveEachOther(trial, oldServices[0] as Service, started[0] as Service);
    await trial.waitForProgress();
    const isConsumer = name === 'projector' || name === 'linker';
    const wait = isConsumer && entry === undefined ? await startWait(trial, name) : undefined;
    for (const old of oldServices) {
      // Drains the process first, as the upgrade page describes, because a closing listener does not answer requests.
      await old.leave();
      expect(await old.stop(), `the exit code of the ${name}`).toBe(0);
    }
    expect(await (wait?.ended() ?? 0), wait?.output.stderr).toBe(0);
    const which = entry === undefined ? 'this version' : 'the version before';
    print(
      `each ${name} is of ${which}; ${load.unanswered} requests without an answer, ${load.refused} refused`,
    );
  }
}

/** Starts `questlog wait-for-consumers`, and waits until the command has found a member of the version before. */
async function startWait({ deployment }: Trial, name: ServiceName): Promise<Running> {
  const wait = running(['wait-for-consumers', name], deployment.settings);
  await eventually(
    async () => wait.output.stderr,
    (stderr) => / reads version 0 of the records/.test(stderr),
    SHOWN_WITHIN_MS,
  );
  return wait;
}

/** Checks that events and tokens of one process are visible in the other process, in both directions. */
async function serveEachOther(trial: Trial, one: Service, other: Service): Promise<void> {
  const { load, projects, projected, linked } = trial;
  const [project] = projects as [TestProject];
  /** Waits for the status, because consumers can be behind after a rebalance. @returns the body. */
  const waitForStatus = async (ask: () => Promise<Answer>, wanted: number): Promise<string> => {
    const request = async () => {
      const answer = await ask();
      const { status } = answer;
      if (status !== wanted) await Promise.all([projected, linked].map((watch) => watch.poll()));
      return { status, body: answer.text(), behind: [projected, linked].flatMap(({ behind }) => behind) };
    };
    return (await eventually(request, ({ status }) => status === wanted, SHOWN_WITHIN_MS)).body;
  };
  for (const [writer, reader] of [
    [one, other],
    [other, one],
  ] as const) {
    const taken = await load.probe(project, { at: writer });
    expect(taken.status).toBe(201);
    const [{ id }] = taken.json();
    const shown = await waitForStatus(() => onto(project, reader).get(`/v1/events/${id}`), 200);
    expect(JSON.parse(shown).payload).toEqual(taken.json()[0].payload);

    const { id: tokenId, token } = await aToken(writer, project.projectId, { scopes: ['read'] });
    await waitForStatus(() => onto({ ...project, token }, reader).get(`/v1/events/${id}`), 200);
    expect((await reader.admin('DELETE', `/admin/tokens/${tokenId}`)).status).toBe(204);
    await waitForStatus(() => onto({ ...project, token }, writer).get(`/v1/events/${id}`), 401);
  }
}
