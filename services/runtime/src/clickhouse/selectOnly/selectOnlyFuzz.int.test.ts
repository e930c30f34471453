/**
 * Questions made by chance: allowed ones with pieces of attacks put into them. Whatever the guard lets through is run, and
 * must neither show the file's content nor change a file. `SEED` and `ROUNDS` in the environment repeat or prolong a run.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { attacks, leaks } from './selectOnlyAttacks.ts';
import { questions } from './selectOnlyQuestions.ts';
import { pick, type Random, randomFrom } from './selectOnlyRandom.ts';
import { openSandbox, type Sandbox, secret } from './selectOnlySandbox.ts';

let sandbox: Sandbox;
beforeAll(() => {
  sandbox = openSandbox();
});
afterAll(() => sandbox.close());

const seed = Number(process.env['SEED'] ?? 42);
const rounds = Number(process.env['ROUNDS'] ?? 1500);

it(`lets nothing through that reads or writes a file (seed ${seed}, ${rounds} rounds)`, {
  timeout: 3_600_000,
}, async () => {
  const random = randomFrom(seed);
  const before = sandbox.files();
  let accepted = 0;
  for (let round = 0; round < rounds; round += 1) {
    const query = aQuery(random);
    const answer = await sandbox.guard(query);
    if (!answer.ok) continue;
    accepted += 1;
    expect(answered(answer.sql), `seed ${seed}, round ${round}: ${answer.sql}`).not.toContain(secret);
    if (round % 50 === 0) expect(sandbox.files(), `seed ${seed}, round ${round}: ${answer.sql}`).toBe(before);
  }
  expect(sandbox.files()).toBe(before);
  expect(accepted).toBeGreaterThan(rounds / 50);
});

const fragments = [
  "file('@FILE@')", "file('@FILE@', LineAsString)", "`file`('@FILE@')", "'@FILE@'", '`@FILE@`', '"@FILE@"', 'default.`@FILE@`',
  "INTO OUTFILE '@OUT@'", 'FORMAT CSV', 'SETTINGS', 'SETTINGS final = 1', ', readonly = 0', 'APPLY(file)', 'APPLY', 'IN', 'AS', 'FROM',
  'UNION ALL', 'SELECT', 'WITH x AS (', 'WITH file AS (SELECT 1)', ')', '(', ';', '--', '/*', '*/', "'", "\\'", "''", '"', '`', '\n', '\\',
  "arrayReduce('groupConcat(file(\\'@FILE@\\'))', ['a', 'b'])", "'groupConcat(file(''@FILE@''))'", "'a String DEFAULT file(''@FILE@'')'",
  'values(', 'format(Values, ', 'view(', '* APPLY(x -> ', 'globalIn(1, ', ' -> ', '::', '$$', '{', 'x\'27\'', 'b\'0\'', '.', ',', 'events', '*',
  'OVER (ORDER BY ', 'LIMIT 1 BY ', 'PREWHERE ', 'ARRAY JOIN ', 'QUALIFY ', 'WITH FILL FROM ', 'INTERPOLATE (a AS ', 'COLUMNS(', 'REPLACE (',
  'private', 'IN private', 'FROM private', ', private', '(private)', 'WITH private AS (SELECT 1)', 'view(SELECT * FROM private)',
  'AS private', 'WITH [1] AS private', 'WITH RECURSIVE private AS (SELECT * FROM events)', 'JOIN private ON 1', 'default.private',
]; // biome-ignore format: short pieces

/** An allowed question or an attack, changed one to four times. */
function aQuery(random: Random): string {
  const all = [...questions, ...leaks, ...attacks].filter(([query]) => query.length < 1_000);
  let query = pick(random, random(3) === 0 ? all : questions)[0];
  const changes = 1 + random(4);
  for (let change = 0; change < changes; change += 1) query = changed(random, query, pick(random, all)[0]);
  return query.replaceAll('@FILE@', sandbox.secretPath).replaceAll('@OUT@', `${sandbox.secretPath}.out`);
}

function changed(random: Random, query: string, other: string): string {
  const at = boundary(random, query);
  const to = Math.min(query.length, at + random(12));
  switch (random(6)) {
    case 0:
      return `${query.slice(0, at)} ${pick(random, fragments)} ${query.slice(at)}`;
    case 1:
      return `${query.slice(0, at)}${pick(random, fragments)}${query.slice(to)}`;
    case 2:
      return query.slice(0, at) + query.slice(to);
    case 3:
      return `${query.slice(0, at)}(${other})${query.slice(at)}`;
    case 4:
      return query.slice(0, at) + other.slice(boundary(random, other));
    default:
      return replaceWord(random, query, other);
  }
}

/** Mostly between two words, so that many of the questions still parse. */
function boundary(random: Random, text: string): number {
  const at = random(text.length + 1);
  const space = text.indexOf(' ', at);
  return random(4) === 0 || space === -1 ? at : space;
}

function replaceWord(random: Random, query: string, other: string): string {
  const words = query.match(/\w+(?:\([^()]*\))?/g) ?? ['x'];
  const others = other.match(/[\w`"]+\s*(?:\([^()]*\))?|'[^']*'/g) ?? ['y'];
  return query.replace(pick(random, words), () => pick(random, others));
}

function answered(sql: string): string {
  try {
    return sandbox.run(sql);
  } catch (error) {
    return String(error);
  }
}
