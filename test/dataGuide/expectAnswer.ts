/** Compares what ClickHouse has answered to a question of the data guide with what was counted from the game. */
import { expect } from 'vitest';
import type { Row } from './expectedAnswers.ts';

/** Returns decimals as strings, because a JSON number would be read as a double. */
export const ASKED_WITH = 'SETTINGS output_format_json_quote_decimals = 1';

/** Also fails where nothing was to be answered, as that shows nothing. */
export function expectAnswer(answer: readonly Row[], rows: readonly Row[] = [], title = ''): void {
  expect(rows.length, title).toBeGreaterThan(0);
  const columns = Object.keys(rows[0] ?? {});
  expect(
    answer.map((row) => Object.fromEntries(columns.map((name) => [name, row[name]]))),
    title,
  ).toEqual(rows.map((row) => Object.fromEntries(columns.map((name) => [name, asAnswered(row[name])]))));
}

/** 64-bit integers may come as texts; of fractions the queries show three digits. */
function asAnswered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asAnswered);
  if (typeof value === 'bigint') return like(`${value}`, (actual) => `${actual}` === `${value}`);
  if (typeof value !== 'number') return value;
  return like(`about ${value}`, (actual) => actual !== null && Math.abs(Number(actual) - value) <= 0.000501);
}

function like(told: string, asymmetricMatch: (actual: unknown) => boolean): object {
  return { asymmetricMatch, toString: () => told, toAsymmetricMatcher: () => told };
}
