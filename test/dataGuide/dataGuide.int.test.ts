/** Tests the SQL of every question of `docs/data-guide.md` on a small game. Loops over the game count the expected answers. */
import { randomUUID } from 'node:crypto';
import { type Bench, openBench } from '@questlog/projector/testing/projectorBench';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectAnswer, QUERY_SETTINGS } from './expectAnswer.ts';
import { expectedAnswers, type Row } from './expectedAnswers.ts';
import { questionsOfGuide } from './guidePage.ts';
import { appendGame } from './projectedGame.ts';
import { CHEATER, PERIOD, smallGame } from './smallGame.ts';

const seed = Number(process.env['QUESTLOG_SEED'] ?? 1);
const game = smallGame(seed);
const expected = expectedAnswers(game.sessions, PERIOD);
const owner = { tenantId: randomUUID(), projectId: randomUUID() };
const questions = questionsOfGuide();

let bench: Bench;
beforeAll(async () => {
  bench = await openBench();
  await appendGame(bench, owner, game);
  // A second game of the studio has the same session ids and player ids, but other answers.
  const other = smallGame(seed + 1);
  const sessions = other.sessions.map((session, at) => ({
    ...session,
    id: game.sessions[at]?.id ?? session.id,
  }));
  await appendGame(bench, { ...owner, projectId: randomUUID() }, { ...other, sessions });
  await bench.projectAll(bench.store);
});
afterAll(() => bench.close());

test('the page has ten questions', () => {
  expect(questions.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
});

test('the game has a significant experiment and one cheater', () => {
  const [experiment] = expected[9] ?? [];
  expect(experiment?.['p_value'], `seed ${seed}`).toBeLessThan(0.05);
  expect(
    expected[10]?.map(({ player }) => player),
    `seed ${seed}`,
  ).toEqual([CHEATER]);
});

describe(`seed ${seed}`, () => {
  test.each(questions)('$title', async ({ number, sql }) => {
    expectAnswer(await query(sql), expected[number]);
  });

  test('the first day of a player is the day of players.first_played', async () => {
    const cohorts = await query(
      `SELECT toDate(first_played) AS first_day, count() AS players FROM players
       WHERE project_id = {project:UUID} AND first_played >= {from:Date} AND first_played < {to:Date}
       GROUP BY first_day ORDER BY first_day`,
    );
    expectAnswer(
      cohorts,
      expected[2]?.map(({ first_day, players }) => ({ first_day, players })),
    );
  });
});

function query(sql: string): Promise<Row[]> {
  return bench.store.query<Row>(`${sql} ${QUERY_SETTINGS}`, {
    tenant: owner.tenantId,
    project: owner.projectId,
    from: dayOf(PERIOD.from),
    to: dayOf(PERIOD.to),
  });
}

function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10);
}
