/**
 * Tests the simulated month of the data guide, `questlog simulate --days 30 --speed max --seed 7`, with half a million events.
 * ClickHouse must return the answers that are counted from the simulated sessions, and `known-answers.txt` must list them.
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

/** Time limit. The test takes 90 seconds on two cores, which it shares with other tests. */
const TIMEOUT_MS = 300_000;
const KNOWN_ANSWERS = new URL('../../examples/queries/known-answers.txt', import.meta.url);
const shared = ownProduct();

test('a month of simulated play has the answers in known-answers.txt', { timeout: TIMEOUT_MS }, async () => {
  const { adminUrl, adminToken, baseUrl, token } = shared.product.credentials;
  const env = {
    ...{ QUESTLOG_ADMIN_URL: adminUrl, QUESTLOG_ADMIN_TOKEN: adminToken },
    ...{ QUESTLOG_URL: baseUrl, QUESTLOG_TOKEN: token },
  };
  const month = ['simulate', '--days', '30', '--speed', 'max', '--seed', '7', '--json'];
  const { stdout, stderr, code } = await questlogCommand(month, { env });
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const { tenantId, projectId, from, to } = JSON.parse(stdout);

  const period = { from: Date.parse(from), to: Date.parse(to) };
  const expected = expectedAnswers(simulatedSessions({ seed: 7, players: 200 }, period), period);
  const parameters = { tenant: tenantId, project: projectId, from, to };
  for (const { number, title, sql } of questionsOfGuide()) {
    const answer = await shared.product.admin('POST', '/admin/sql', {
      query: `${sql} ${QUERY_SETTINGS}`,
      parameters,
    });
    expectAnswer(answer.json().data, expected[number], title);
  }
  expect(linesOf(expected, period)).toBe(readFileSync(KNOWN_ANSWERS, 'utf8'));
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
