/** The steps of an erasure, in their order, on a ClickHouse that answers what it is told. */
import { randomUUID } from 'node:crypto';
import { emptyDirectory } from '@questlog/runtime/directory/directory';
import { systemClock } from '@questlog/runtime/process/clock';
import { silentLogger } from '@questlog/runtime/process/logger';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import type { Erasure } from '@questlog/schemas/topics/directoryEntry';
import { expect, onTestFinished, test } from 'vitest';
import { runErasures } from './runErasures.ts';

/** `max_query_size` of a server, where nobody has set it. */
const MAX_QUERY_BYTES = 262_144;
const [TENANT, PROJECT] = [randomUUID(), randomUUID()];

function ofSessions(count: number): Erasure {
  const ids = Array.from({ length: count }, () => randomUUID());
  return anErasure({ tenantId: TENANT, projectId: PROJECT, sessions: [{ projectId: PROJECT, ids }] });
}

/** Runs it to its end. @param files that its reports name. */
async function done(erasure: Erasure, files: { ids: string[]; uploads: object } | undefined = undefined) {
  const erasures = new Map([[erasure.id, erasure]]);
  const statements: string[] = [];
  const steps: string[] = [];
  const limits: (number | undefined)[] = [];
  const waitsFor: (string | null | undefined)[] = [];
  /** Each by its table and condition. */
  const rows = new Set<string>();
  const hidden = new Set<string>();
  const store = {
    query: async (sql: string) => {
      statements.push(sql);
      if (sql.includes('attachments.upload_id'))
        return files === undefined ? [] : [{ projectId: PROJECT, id: randomUUID(), uploads: files.ids }];
      if (sql.includes('DISTINCT toYYYYMMDD')) return [{ day: 20_261_122 }];
      const asked = /^SELECT count\(\) AS rows FROM (.*)$/.exec(sql)?.[1];
      if (asked === undefined || sql.includes('_row_exists')) return [];
      rows.add(asked);
      return [{ rows: hidden.has(asked) ? '0' : '1' }];
    },
    command: async (sql: string) => {
      statements.push(sql);
      const [, condition = '', table = ''] = /^DELETE FROM ((\w+) .*) SETTINGS/.exec(sql) ?? [];
      if (table !== '') steps.push(table);
      hidden.add(condition);
    },
  };
  const runs = runErasures({
    directory: {
      current: { ...emptyDirectory(), erasures },
      change: async (_kind: string, id: string, decide: (known: unknown) => { entity?: Erasure }) => {
        const { entity } = decide(erasures.get(id));
        if (entity !== undefined) erasures.set(id, entity);
      },
    } as never,
    store: store as never,
    uploads: files?.uploads as never,
    letters: { discardErased: async () => 0 },
    projections: [
      {
        caughtUp: async (_, limitMs) => {
          limits.push(limitMs);
          waitsFor.push(erasures.get(erasure.id)?.problem);
          steps.push('caught up');
          // What was planned before the request comes now.
          for (const condition of rows) if (condition.startsWith('report_link')) hidden.delete(condition);
        },
      },
    ],
    clock: systemClock,
    logger: silentLogger,
  });
  onTestFinished(() => runs.close());
  const state = () => erasures.get(erasure.id)?.state;
  await expect.poll(state, { timeout: 20_000 }).toMatch(/done|failed/);
  return { erasure: erasures.get(erasure.id), statements, steps, limits, waitsFor };
}

test('an erasure of more sessions than one statement takes ends', async () => {
  const { erasure, statements } = await done(ofSessions(600));
  expect(erasure).toMatchObject({ state: 'done', problem: null });
  expect(Math.max(...statements.map(({ length }) => length))).toBeLessThan(MAX_QUERY_BYTES);
  const accounts = statements.filter((sql) => sql.startsWith('INSERT INTO erased_events'));
  expect(new Set(accounts.map((sql) => /SELECT '[^']+', (\d)/.exec(sql)?.[1]))).toEqual(new Set(['0', '1']));
});

test('links that come after the first look are hidden while their events still tell which they are', async () => {
  const { steps } = await done(ofSessions(1));
  expect(steps).toEqual([
    ...['report_link_versions', 'sessions', 'caught up'],
    ...['report_link_versions', 'report_versions', 'events'],
  ]);
});

test('a projector that is seconds behind all the time is waited for, and says so', async () => {
  const { limits, waitsFor } = await done(ofSessions(1));
  expect(limits.every((limitMs = 0) => limitMs >= 60_000)).toBe(true);
  expect(waitsFor).toEqual([expect.stringContaining('projector')]);
});

test('the files of many reports are asked for one by one: all at once were more than a process may have open', async () => {
  const ids: string[] = Array.from({ length: 50 }, () => randomUUID());
  let [open, most] = [0, 0];
  const left = new Set<string>(ids);
  const uploads = {
    find: async ({ uploadId }: { uploadId: string }) => {
      open += 1;
      most = Math.max(most, open);
      await new Promise((resolve) => setImmediate(resolve));
      open -= 1;
      return left.has(uploadId) ? { description: {} } : undefined;
    },
    remove: async ({ uploadId }: { uploadId: string }) => void left.delete(uploadId),
    list: async function* () {},
  };
  const { erasure } = await done(ofSessions(1), { ids, uploads });
  expect([erasure?.state, erasure?.found.attachments, left.size, most]).toEqual(['done', 50, 0, 1]);
});
