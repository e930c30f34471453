/**
 * Each runbook is followed once, word by word, while a script breaks that thing. One product on a small disk for all of them, as an
 * operator has it. How a page marks what is typed: `followPage.ts`. A page that another test follows is named there by its path.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { anEvent, anUnknownId, eventually, type TestProject } from '../e2e/builders.ts';
import { ownEnvironment } from '../e2e/product.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { followPage, type Hands } from './followPage.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RUNBOOKS = join(ROOT, 'docs/operating/runbooks');
/** Not typed word by word yet: what they tell of has tests of its own. */
const NOT_YET = ['erasure.md', 'restore.md'];
/** What the page promises. */
const KNOWN_WITHIN_MS = 2_000;
const MIB = 1024 * 1024;

const disk = mkdtempSync(join(tmpdir(), 'questlog-runbooks-'));
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${192 * MIB}`, 'tmpfs', disk], {
  encoding: 'utf8',
});
const isSmall = mounted.status === 0;
if (!isSmall)
  console.warn(`skipped: a small disk cannot be mounted here: ${mounted.stderr || mounted.error?.message}`);

// Hooks behind all tests run last registered first: the product has ended by then.
afterAll(() => {
  if (isSmall) spawnSync('umount', ['-l', disk]);
  rmSync(disk, { recursive: true, force: true });
});
const dataDir = join(disk, 'data');
const own = ownProduct({ dataDir });

let game: TestProject;
beforeAll(async () => {
  game = await own.aProject({ revision: 'A' });
});

// The first, while ClickHouse has nothing to merge: what a merge leaves behind on a full disk is its own matter.
test.skipIf(!isSmall)(
  'full-disk.md: games are refused until there is room, and nothing answered is lost',
  async () => {
    const ballast = join(disk, 'ballast');
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
        fillUp(ballast);
        await eventually(post, (status) => status === 503);
      },
      makeRoom: async () => {
        expect(await post()).toBe(503);
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

test('flood.md: the build is found, and stopped within 2 s by one command, alone', async () => {
  const buildId = anUnknownId();
  const bad = await game.session({ buildId });
  const sent: { begunAt: number; status: number }[] = [];
  let isOver = false;
  const flood = async (): Promise<void> => {
    while (!isOver) {
      const begunAt = Date.now();
      const { status } = await game.post(
        Array.from({ length: 20 }, () => anEvent({ sessionId: bad, eventType: 'physics_debug' })),
      );
      sent.push({ begunAt, status });
    }
  };
  let flooding: Promise<void> | undefined;
  let knownAt = 0;
  const late = () => sent.filter(({ begunAt }) => begunAt > knownAt);

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
      knownAt = Date.now() + KNOWN_WITHIN_MS;
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

  expect(sent[0]?.status).toBe(201);
  expect(late().filter(({ status }) => status !== 403)).toEqual([]);
  expect((await game.post([anEvent({ sessionId: bad })])).status).toBe(201);
});

test('dead-letters.md: a record that is put aside is replayed once its cause is mended, another is discarded', async () => {
  const ids: string[] = [];
  await follow('dead-letters.md', {
    break: async () => {
      await changeTable("ADD CONSTRAINT no_poison CHECK event_type != 'poison'");
      for (const opened of [1, 2]) {
        ids.push((await game.post(anEvent({ sessionId: game.sessionId, eventType: 'poison' }))).json()[0].id);
        await eventually(
          async () => (await own.product.admin('GET', '/metrics')).text(),
          (metrics) =>
            metrics.includes(`questlog_dead_letters_open{group="questlog-project-events"} ${opened}\n`),
        );
      }
    },
    mend: () => changeTable('DROP CONSTRAINT no_poison'),
  });
  const [replayed, discarded] = ids;
  await eventually(
    () => game.get(`/v1/events/${replayed}`),
    ({ status }) => status === 200,
  );
  expect((await game.get(`/v1/events/${discarded}`)).status).toBe(404);
  expect((await own.product.admin('GET', '/admin/dead-letters')).json().deadLetters).toEqual([]);
});

test('every runbook is followed, here or by another test that names it', () => {
  const pages = readdirSync(RUNBOOKS).filter((name) => !['README.md', ...NOT_YET].includes(name));
  const tests = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => readFileSync(join(ROOT, 'test', name), 'utf8'));
  expect(pages.filter((page) => !tests.some((text) => text.includes(page)))).toEqual([]);
});

async function follow(page: string, hands: Hands): Promise<void> {
  const { adminUrl } = own.product.credentials;
  const env = { ...ownEnvironment(), QUESTLOG_DATA_DIR: dataDir, DATA: dataDir, ADMIN: adminUrl };
  await followPage(readFileSync(join(RUNBOOKS, page), 'utf8'), hands, env);
}

/** As whoever may change tables. */
async function changeTable(change: string): Promise<void> {
  const { url, database, username, password } = own.product.credentials.clickhouse;
  const headers = { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password };
  const body = `ALTER TABLE events ${change}`;
  const answer = await fetch(`${url}/?database=${database}`, { method: 'POST', headers, body });
  expect({ status: answer.status, text: await answer.text() }).toEqual({ status: 200, text: '' });
}

/** Until the disk takes no more. */
function fillUp(path: string): void {
  const { bavail, bsize } = statfsSync(disk);
  spawnSync('bash', ['-c', 'head -c "$0" /dev/zero >"$1"', String(bavail * bsize), path]);
}
