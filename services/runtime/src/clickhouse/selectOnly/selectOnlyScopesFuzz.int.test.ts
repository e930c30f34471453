/**
 * Queries grown by chance from WITH, UNION, subqueries and joins, in which a name is now a common table expression, now an
 * alias and now a table that is on no list. Whatever the guard lets through must not answer from that table. `SEED` and
 * `ROUNDS` in the environment repeat or prolong a run.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pick, type Random, randomFrom } from './selectOnlyRandom.ts';
import { openSandbox, type Sandbox, secret } from './selectOnlySandbox.ts';

let sandbox: Sandbox;
beforeAll(() => {
  sandbox = openSandbox();
});
afterAll(() => sandbox.close());

const seed = Number(process.env['SEED'] ?? 42);
const rounds = Number(process.env['ROUNDS'] ?? 500);

it(`never takes a name of WITH for a table (seed ${seed}, ${rounds} rounds)`, {
  timeout: 3_600_000,
}, async () => {
  const random = randomFrom(seed);
  let accepted = 0;
  /** Of every tenth query that is refused: the ones that would have answered from the table. */
  let refusedLeaks = 0;
  for (let round = 0; round < rounds; round += 1) {
    const query = aSelect(random, 3);
    const answer = await sandbox.guard(query);
    if (!answer.ok && round % 10 !== 0) continue;
    const rows = answered(query);
    if (answer.ok && rows !== undefined) accepted += 1;
    if (!answer.ok && rows?.includes(secret)) refusedLeaks += 1;
    if (answer.ok) expect(rows ?? '', `seed ${seed}, round ${round}: ${answer.sql}`).not.toContain(secret);
  }
  expect(accepted).toBeGreaterThan(rounds / 50);
  expect(refusedLeaks).toBeGreaterThan(rounds / 500);
});

/** The row is split up, so that only the table holds it in one piece. */
const guess = "concat('top-secr', 'et-42')";
const names = ['private', 'private', 'a', 'sessions', "'private'", '`private`'];

function aSelect(random: Random, depth: number): string {
  const clause = random(2) === 0 ? aWith(random, depth) : '';
  const where = random(4) === 0 ? ` WHERE ${aMembership(random, depth)} OR 1` : '';
  const select = `${clause}SELECT ${anExpression(random, depth)} AS x FROM ${aSource(random, depth)}${where}`;
  if (random(4) !== 0) return select;
  const other = depth > 0 ? aSelect(random, depth - 1) : "SELECT 'x' AS x";
  return `${select} ${pick(random, ['UNION ALL', 'EXCEPT', 'INTERSECT'])} ${random(3) === 0 ? `(${other})` : other}`;
}

function aWith(random: Random, depth: number): string {
  const count = 1 + random(2);
  const given = Array.from({ length: count }, () =>
    random(3) === 0 || depth === 0
      ? `${pick(random, ["['b']", `${aMembership(random, 0)}`, "(SELECT ['b'])", 'private', '(private AS z)'])} AS ${pick(random, names)}`
      : `${pick(random, names)} AS ${random(4) === 0 ? 'MATERIALIZED ' : ''}(${aSelect(random, depth - 1)})`,
  );
  return `WITH ${random(4) === 0 ? 'RECURSIVE ' : ''}${given.join(', ')} `;
}

function anExpression(random: Random, depth: number): string {
  switch (random(7)) {
    case 0:
      return `if(${aMembership(random, depth)}, ${guess}, 'no')`;
    case 1:
      return depth > 0 ? `(SELECT min(x) FROM (${aSelect(random, depth - 1)}))` : "'x'";
    case 2:
      return '(SELECT min(x) FROM private)';
    case 3:
      return `arrayMap(${pick(random, ['private', 'x'])} -> if(${aMembership(random, 0)}, ${guess}, 'no'), [['b']])[1]`;
    case 4:
      return `toString(${pick(random, names)}.x)`;
    default:
      return 'toString(x)';
  }
}

function aMembership(random: Random, depth: number): string {
  const name = pick(random, names);
  const query = depth > 0 ? `(${aSelect(random, depth - 1)})` : "('b', 'c')";
  return pick(random, [
    `${guess} IN ${name}`,
    `${guess} IN (${name})`,
    `in(${guess}, ${name})`,
    `globalIn(${guess}, ${name})`,
    `${guess} IN ${query}`,
    `(${guess}, 1) IN (${name}, ${name})`,
  ]);
}

function aSource(random: Random, depth: number): string {
  const table = pick(random, [
    'private',
    'a',
    "'private'",
    '(SELECT id AS x FROM sessions)',
    "(SELECT 'x' AS x)",
  ]);
  if (depth === 0) return table;
  switch (random(8)) {
    case 0:
      return `view(${aSelect(random, depth - 1)})`;
    case 1:
      return `(${aSelect(random, depth - 1)}) AS ${pick(random, names)}`;
    case 2:
      return `(SELECT 'x' AS x) AS q, ${pick(random, names)} AS w`;
    case 3:
      return `(SELECT 'x' AS x) AS q JOIN ${pick(random, names)} AS w ON 1, ${pick(random, names)} AS v`;
    case 4:
      return `(SELECT 'x' AS x, ['b'] AS y) AS q ARRAY JOIN y AS ${pick(random, names)}`;
    case 5:
      return `(SELECT 'x' AS x) AS ${pick(random, names)} CROSS JOIN (${aSelect(random, depth - 1)}) AS w`;
    default:
      return table;
  }
}

/** The rows, or undefined for a failure, whose text repeats what the query guesses. */
function answered(sql: string): string | undefined {
  try {
    return sandbox.run(sql);
  } catch {
    return undefined;
  }
}
