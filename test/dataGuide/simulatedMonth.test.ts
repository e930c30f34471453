/**
 * Tests the simulated month of the data guide, `questlog simulate --days 30 --speed max --seed 7`. `known-answers.txt` must
 * have the answers that are counted from the simulated sessions. For a game of ten days, ClickHouse must return the counted
 * answers.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { questlogCommand } from '../e2e/questlogCommand.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { expectAnswer, QUERY_SETTINGS } from './expectAnswer.ts';
import { expectedAnswers, type Period, type Row } from './expectedAnswers.ts';
import { questionsOfGuide } from './guidePage.ts';
import { simulatedSessions } from './simulatedGame.ts';
import { DAY_MS } from './smallGame.ts';

const TIMEOUT_MS = 300_000;
/** More than a week, so that players can return after seven days. */
const DAYS = 10;
const GAME = { seed: 7, players: 200 };
const KNOWN_ANSWERS = new URL('../../examples/queries/known-answers.txt', import.meta.url);
const shared = ownProduct();

test('a month of simulated play has the answers in known-answers.txt', () => {
  const to = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const period = { from: to - 30 * DAY_MS, to };
  const expected = expectedAnswers(simulatedSessions(GAME, period), period);
  expect(linesOf(expected, period)).toBe(readFileSync(KNOWN_ANSWERS, 'utf8'));
});

test('ClickHouse returns the answers of ten simulated days', { timeout: TIMEOUT_MS }, async () => {
  const { adminUrl, adminToken, baseUrl, token } = shared.product.credentials;
  const env = {
    ...{ QUESTLOG_ADMIN_URL: adminUrl, QUESTLOG_ADMIN_TOKEN: adminToken },
    ...{ QUESTLOG_URL: baseUrl, QUESTLOG_TOKEN: token },
  };
  const simulate = ['simulate', '--days', `${DAYS}`, '--speed', 'max', '--seed', `${GAME.seed}`, '--json'];
  const { stdout, stderr, code } = await questlogCommand(simulate, { env });
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const { tenantId, projectId, from, to } = JSON.parse(stdout);

  const period = { from: Date.parse(from), to: Date.parse(to) };
  const expected = expectedAnswers(simulatedSessions(GAME, period), period);
  const parameters = { tenant: tenantId, project: projectId, from, to };
  for (const { number, title, sql } of questionsOfGuide()) {
    const answer = await shared.product.admin('POST', '/admin/sql', {
      query: `${sql} ${QUERY_SETTINGS}`,
      parameters,
    });
    expectAnswer(answer.json().data, expected[number], title);
  }
});

/** Returns the content of `known-answers.txt`. */
function linesOf(answers: Readonly<Record<number, Row[]>>, period: Period): string {
  const lines = Object.entries(answers).map(([number, rows]) => {
    const first = Object.entries(rows[0] ?? {}).map(([name, value]) => `${name} ${shown(value, period)}`);
    return `${number}. rows: ${rows.length}; the first: ${first.join(', ')}\n`;
  });
  return lines.join('');
}

function shown(value: unknown, { from }: Period): string {
  if (Array.isArray(value)) return `(${value.map((one) => shown(one, { from, to: from })).join(', ')})`;
  if (typeof value === 'number') return `${Math.round(value * 1000) / 1000}`;
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(value)) return `${value}`;
  return `from + ${(Date.parse(value) - from) / DAY_MS}`;
}
