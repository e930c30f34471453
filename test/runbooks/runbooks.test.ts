/**
 * Follows each runbook while a script causes its problem, on one product with a small disk. `followPage.ts` describes the marks
 * in the pages. Other tests follow further runbooks.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { fillWithTables } from '@questlog/runtime/clickhouse/chdb/testing/migratedFolder';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import {
  anEvent,
  anUnknownId,
  aProject,
  events,
  eventually,
  onto,
  type TestProject,
} from '../e2e/builders.ts';
import { change, shortenPartLifetime, TABLES } from '../e2e/erasing.ts';
import { bugsIn, ownEnvironment, startProduct } from '../e2e/product.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { holdStreams } from '../monitoring/heldStreams.ts';
import { smallDisk } from '../smallDisk.ts';
import { followPage, type Hands } from './followPage.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RUNBOOKS = join(ROOT, 'docs/operating/runbooks');
/** Time within which a switch takes effect, as the runbook states. */
const EFFECTIVE_WITHIN_MS = 2_000;
/** Pause between two events of a game. It leaves CPU time for the product. */
const PLAY_PACE_MS = 100;
const MIB = 1024 * 1024;

// Created before the product, so that its cleanup runs after the product has stopped.
const disk = smallDisk(192 * MIB);
if (disk.lacking !== undefined) console.warn(`skipped: ${disk.lacking}`);
const dataDir = join(disk.path, 'data');
fillWithTables(join(dataDir, 'clickhouse'));
const own = ownProduct({ dataDir });

let game: TestProject;
beforeAll(async () => {
  game = await own.aProject({ revision: 'A' });
});

test('flood.md: finds the build and stops only this build within 2 s', async () => {
  const buildId = anUnknownId();
  const bad = await game.session({ buildId });
  const sent: { startedAt: number; status: number }[] = [];
  let isOver = false;
  const flood = async (): Promise<void> => {
    while (!isOver) {
      const startedAt = Date.now();
      const { status } = await game.post(
        Array.from({ length: 20 }, () => anEvent({ sessionId: bad, eventType: 'physics_debug' })),
      );
      sent.push({ startedAt, status });
    }
  };
  let flooding: Promise<void> | undefined;
  const switches = `/admin/projects/${game.projectId}/switches`;
  const others = { eventType: 'debug', action: 'reject', reason: 'of somebody else' };
  await own.product.admin('PUT', switches, [others]);
  let effectiveAt = 0;
  const late = () => sent.filter(({ startedAt }) => startedAt > effectiveAt);

  await follow('flood.md', {
    break: async () => {
      flooding = flood();
      await eventually(
        () =>
          own.product.sql<{ n: number }>(
            "SELECT toUInt32(count()) AS n FROM events WHERE event_type = 'physics_debug'",
          ),
        ([row]) => (row?.n ?? 0) > 100,
      );
    },
    isStopped: async () => {
      effectiveAt = Date.now() + EFFECTIVE_WITHIN_MS;
      await eventually(
        async () => late(),
        ({ length }) => length > 0,
      );
      expect((await game.post([anEvent({ sessionId: game.sessionId })])).status).toBe(201);
    },
    mendedBuild: async () => {
      isOver = true;
      await flooding;
    },
  }).finally(() => {
    isOver = true;
  });

  expect((await own.product.admin('GET', switches)).json()).toMatchObject([others]);
  expect(sent[0]?.status).toBe(201);
  expect(late().filter(({ status }) => status !== 403)).toEqual([]);
  expect((await game.post([anEvent({ sessionId: bad })])).status).toBe(201);
});

test('dead-letters.md: replays a dead letter after its cause is fixed, and discards another', async () => {
  const ids: string[] = [];
  const mend = () => changeTable('DROP CONSTRAINT IF EXISTS no_poison');
  await follow('dead-letters.md', {
    break: async () => {
      await changeTable("ADD CONSTRAINT no_poison CHECK event_type != 'poison'");
      for (const opened of [1, 2]) {
        ids.push((await game.post(anEvent({ sessionId: game.sessionId, eventType: 'poison' }))).json()[0].id);
        await eventually(metrics, (text) =>
          text.includes(`questlog_dead_letters_open{group="questlog-project-events"} ${opened}\n`),
        );
      }
    },
    mend,
  }).finally(mend);
  const [replayed, discarded] = ids;
  await eventually(
    () => game.get(`/v1/events/${replayed}`),
    ({ status }) => status === 200,
  );
  expect((await game.get(`/v1/events/${discarded}`)).status).toBe(404);
  expect((await own.product.admin('GET', '/admin/dead-letters')).json().deadLetters).toEqual([]);
});

test('erasure.md: erases a player and no other data', async () => {
  const kim = await game.session({ player: { externalId: 'kim' } });
  const erased = await sendEvent(kim);
  const kept = await sendEvent(await game.session({ player: { externalId: 'lee' } }));
  await follow('erasure.md', {
    break: async () => {
      // ClickHouse keeps replaced parts for a minute; an operator waits for that.
      await shortenPartLifetime(own.product);
      await eventually(
        () => own.product.sql("SELECT 1 FROM sessions WHERE player_external_id = 'kim'"),
        ({ length }) => length === 1,
      );
    },
  }).finally(async () => {
    for (const table of TABLES)
      await change(own.product, `ALTER TABLE ${table} RESET SETTING old_parts_lifetime`);
  });
  expect((await game.get(`/v1/events/${erased}`)).status).toBe(404);
  expect((await game.get(`/v1/events/${kept}`)).status).toBe(200);
});

test('lag.md, linker.md: a projector reports failing inserts, and catches up after the fix, while games play', async () => {
  const mend = () => changeTable('RESET SETTING parts_to_throw_insert');
  let isOver = false;
  let late = '';
  const play = async (): Promise<void> => {
    while (!isOver) {
      await sendEvent(game.sessionId);
      await delay(PLAY_PACE_MS);
    }
  };
  const waitingReport = async (): Promise<void> => {
    expect((await game.report({ sessionId: game.sessionId })).status).toBe(201);
    await eventually(metrics, (text) =>
      /^questlog_linker_look_up_wait_seconds\{partition="\d+"\} [1-9]/m.test(text),
    );
  };
  let playing: Promise<void> | undefined;
  const { projectId } = game;
  const more = { PROJECT: projectId, QUESTLOG_ADMIN_TOKEN: own.product.credentials.adminToken };
  await follow('lag.md', {
    break: async () => {
      await changeTable('MODIFY SETTING parts_to_throw_insert = 1');
      late = await sendEvent(game.sessionId);
      playing = play();
      await eventually(
        metrics,
        (text) => /^questlog_group_lag_seconds\{group="questlog-project-events".*\} \d\d/m.test(text),
        60_000,
      );
    },
    // The linker waits for the same projector.
    mend: () => follow('../linker.md', { break: waitingReport, mend }, { more }),
  }).finally(async () => {
    isOver = true;
    await playing;
    await mend();
  });
  expect((await game.get(`/v1/events/${late}`)).status).toBe(200);
});

test('rate-limits.md: raises the limits of a project whose events are rejected', async () => {
  const limited = await own.aProject({ revision: 'B' });
  const { tenantId, projectId } = limited;
  const post = async (): Promise<number> => (await limited.post(events(100))).status;
  const stop = async (): Promise<void> => {
    const limits = { eventsPerSecond: 1, burstSeconds: 1 };
    await own.product.admin('PATCH', `/admin/projects/${projectId}`, { limits });
    await eventually(post, (status) => status === 429);
    const series = `questlog_tenant_rate_limited_total{tenant="${tenantId}"}`;
    await eventually(metrics, (text) => text.includes(series));
  };
  await follow('../rate-limits.md', { break: stop }, { more: { TENANT: tenantId, PROJECT: projectId } });
  await eventually(post, (status) => status === 201);
});

test('limits.md: lists a resource that is almost exhausted', async () => {
  let release: () => void = () => undefined;
  const hold = async (): Promise<void> => {
    release = await holdStreams(own.product);
  };
  await follow('../limits.md', { break: hold }).finally(() => release());
});

test('verify.md: finds missing events, and no difference after the repair', async () => {
  const id = await sendEvent(game.sessionId);
  const read = () => game.get(`/v1/events/${id}`);
  await eventually(read, ({ status }) => status === 200);
  const move = (how: string) => () => changeTable(`${how} PARTITION ALL`);
  await follow('../verify.md', { break: move('DETACH'), mend: move('ATTACH') });
  await eventually(read, ({ status }) => status === 200);
});

// This test is the last, because a full disk fails the merges that the other tests leave behind.
test.skipIf(disk.lacking !== undefined)(
  'full-disk.md: rejects requests until space is free, and loses no acknowledged event',
  async () => {
    let ballast = '';
    const accepted: string[] = [];
    const post = async (): Promise<number> => {
      const answer = await game.post(
        anEvent({
          sessionId: game.sessionId,
          eventType: 'filler',
          payload: { text: randomBytes(24 * 1024).toString('hex') },
        }),
      );
      if (answer.status === 201) accepted.push(answer.json()[0].id);
      return answer.status;
    };
    await post();
    await follow('full-disk.md', {
      break: async () => {
        ballast = disk.fill();
        // The log first writes to the space that its files already have.
        await eventually(
          () => Promise.all(Array.from({ length: 8 }, post)),
          (statuses) => statuses.includes(503),
        );
      },
      makeRoom: async () => {
        // Repeats the request, because ClickHouse can free disk space by deleting replaced parts.
        await eventually(post, (status) => status === 503);
        rmSync(ballast);
      },
    });
    await eventually(post, (status) => status === 201);
    await eventually(
      async () =>
        (await own.product.sql<{ id: string }>("SELECT id FROM events WHERE event_type = 'filler'")).map(
          ({ id }) => id,
        ),
      (stored) => accepted.every((id) => stored.includes(id)),
    );
  },
);

test('logs.md, restore.md: finds a bug, and restores the events from before the backup after the loss of a machine', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-restore-'));
  const [lost, backups] = [join(folder, 'data'), join(folder, 'backups')];
  fillWithTables(join(lost, 'clickhouse'));
  const start = () => startProduct({ dataDir: lost, env: { QUESTLOG_BACKUP_DIR: backups } });
  let product = await start();
  onTestFinished(async () => {
    await product.kill();
    rmSync(folder, { recursive: true, force: true });
  });
  const studio = await aProject(product);
  const { id } = (await studio.post(anEvent({ sessionId: studio.sessionId }))).json()[0];
  const { adminUrl } = product.credentials;
  const log = join(folder, 'questlog.log');
  const fail = async (): Promise<void> => {
    await change(product, 'RENAME TABLE builds TO builds_away');
    expect((await studio.get('/v1/builds')).status).toBe(500);
    await change(product, 'RENAME TABLE builds_away TO builds');
    writeFileSync(log, product.stderr());
  };
  await follow('../logs.md', { break: fail }, { adminUrl, more: { LOG: log } });
  await follow(
    'restore.md',
    {
      lose: async () => {
        await product.admin('POST', '/admin/backups');
        await eventually(
          async () => (await product.admin('GET', '/admin/backups')).json().backups,
          ([backup]) => backup?.state === 'done',
          20_000,
        );
        await product.kill();
        rmSync(lost, { recursive: true });
      },
      start: async () => {
        product = await start();
      },
    },
    { adminUrl, dataDir: lost, more: { BACKUPS: backups } },
  );
  expect((await onto(studio, product).get(`/v1/events/${id}`)).status).toBe(200);
  expect(bugsIn(product.stderr())).toEqual([]);
});

/** Follows a page with the shared product, unless another product is given. */
async function follow(
  page: string,
  hands: Hands,
  of: { adminUrl?: string; dataDir?: string; more?: NodeJS.ProcessEnv } = {},
): Promise<void> {
  const { adminUrl = own.product.credentials.adminUrl, dataDir: data = dataDir, more } = of;
  const env = { ...ownEnvironment(), QUESTLOG_DATA_DIR: data, DATA: data, ADMIN: adminUrl, ...more };
  await followPage(readFileSync(join(RUNBOOKS, page), 'utf8'), hands, env);
}

async function metrics(): Promise<string> {
  return (await own.product.admin('GET', '/metrics')).text();
}

async function sendEvent(sessionId: string): Promise<string> {
  return (await game.post(anEvent({ sessionId }))).json()[0].id;
}

const changeTable = async (how: string): Promise<void> =>
  void (await change(own.product, `ALTER TABLE events ${how}`));
