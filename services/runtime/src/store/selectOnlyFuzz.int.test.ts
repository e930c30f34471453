/**
 * Questions made by chance: allowed ones with pieces of attacks put into them. Whatever the guard lets through is run, and
 * must neither show the file's content nor change a file. `SEED` and `ROUNDS` in the environment repeat or prolong a run.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { attacks, leaks } from './selectOnlyAttacks.ts';
import { questions } from './selectOnlyQuestions.ts';
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

type Random = (below: number) => number;

const fragments = [
  "file('@FILE@')", "file('@FILE@', LineAsString)", "`file`('@FILE@')", "'@FILE@'", '`@FILE@`', '"@FILE@"', 'default.`@FILE@`',
  "INTO OUTFILE '@OUT@'", 'FORMAT CSV', 'SETTINGS', 'SETTINGS final = 1', ', readonly = 0', 'APPLY(file)', 'APPLY', 'IN', 'AS', 'FROM',
  'UNION ALL', 'SELECT', 'WITH x AS (', 'WITH file AS (SELECT 1)', ')', '(', ';', '--', '/*', '*/', "'", "\\'", "''", '"', '`', '\n', '\\',
  "arrayReduce('groupConcat(file(\\'@FILE@\\'))', ['a', 'b'])", "'groupConcat(file(''@FILE@''))'", "'a String DEFAULT file(''@FILE@'')'",
  'values(', 'format(Values, ', 'view(', '* APPLY(x -> ', 'globalIn(1, ', ' -> ', '::', '$$', '{', 'x\'27\'', 'b\'0\'', '.', ',', 'events', '*',
  'OVER (ORDER BY ', 'LIMIT 1 BY ', 'PREWHERE ', 'ARRAY JOIN ', 'QUALIFY ', 'WITH FILL FROM ', 'INTERPOLATE (a AS ', 'COLUMNS(', 'REPLACE (',
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

function pick<T>(random: Random, from: readonly T[]): T {
  const item = from[random(from.length)];
  if (item === undefined) throw new Error('nothing to pick from');
  return item;
}

function answered(sql: string): string {
  try {
    return sandbox.run(sql);
  } catch (error) {
    return String(error);
  }
}

/** mulberry32: small, and the same everywhere. */
function randomFrom(start: number): Random {
  let state = start >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
