/** Compares an answer of ClickHouse to a question of the data guide with the answer that was counted from the game. */
import { expect } from 'vitest';
import type { Row } from './expectedAnswers.ts';

/** Returns decimals as strings, because a JSON number would be read as a double. */
export const QUERY_SETTINGS = 'SETTINGS output_format_json_quote_decimals = 1';

/** Fails if no rows are expected, because an empty answer proves nothing. */
export function expectAnswer(answer: readonly Row[], rows: readonly Row[] = [], title = ''): void {
  expect(rows.length, title).toBeGreaterThan(0);
  const columns = Object.keys(rows[0] ?? {});
  expect(
    answer.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]]))),
    title,
  ).toEqual(rows.map((row) => Object.fromEntries(columns.map((name) => [name, asAnswered(row[name])]))));
}

/** Matches 64-bit integers that ClickHouse returns as strings, and fractions that the queries round to three digits. */
function asAnswered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asAnswered);
  if (typeof value === 'bigint') return like(`${value}`, (actual) => `${actual}` === `${value}`);
  if (typeof value !== 'number') return value;
  return like(`about ${value}`, (actual) => actual !== null && Math.abs(Number(actual) - value) <= 0.000501);
}

function like(description: string, asymmetricMatch: (actual: unknown) => boolean): object {
  return { asymmetricMatch, toString: () => description, toAsymmetricMatcher: () => description };
}
