/** The guard against a real engine: what must be refused is, and what is let through answers right. */
import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { selectOnly } from './selectOnly.ts';
import { attacks, leaks } from './selectOnlyAttacks.ts';
import { questions } from './selectOnlyQuestions.ts';
import { openSandbox, type Sandbox, secret } from './selectOnlySandbox.ts';

let sandbox: Sandbox;
beforeAll(() => {
  sandbox = openSandbox();
});
afterAll(() => sandbox.close());

const outPath = (): string => `${sandbox.secretPath}.out`;
const aimed = (text: string): string =>
  text.replaceAll('@FILE@', sandbox.secretPath).replaceAll('@OUT@', outPath());
const short = (query: string): string => query.slice(0, 100).replaceAll('\0', '\\0');

describe('refuses', () => {
  for (const [query, detail] of [...leaks, ...attacks]) {
    it(short(query), async () => {
      const answer = await sandbox.guard(aimed(query));
      expect(answer.ok ? answer.sql : answer.detail).toContain(aimed(detail));
      expect(answer.ok).toBe(false);
    });
  }

  it('at least 80 attacks, and none of them has changed a file', () => {
    expect(leaks.length + attacks.length).toBeGreaterThan(80);
    expect(sandbox.files()).toBe(`secret.csv: ${secret},7\n`);
  });
});

describe('is needed: without it the engine', () => {
  it('gives the file away for most of the leaks', () => {
    const given = leaks.filter(([query]) => unguarded(aimed(query)).includes(secret));
    const kept = leaks.filter((leak) => !given.includes(leak)).map(([query]) => query);
    expect(given.length, `kept: ${kept.join('\n')}`).toBeGreaterThan(30);
  });

  it('writes a file for INTO OUTFILE, even under readonly', () => {
    unguarded(aimed("SELECT 1 INTO OUTFILE '@OUT@' SETTINGS readonly = 1"));
    expect(existsSync(outPath())).toBe(true);
  });
});

describe('lets through', () => {
  for (const [query, expected] of questions) {
    it(short(query), async () => {
      const answer = await sandbox.guard(query);
      expect(answer).toMatchObject({ ok: true });
      if (answer.ok) expectRows(sandbox.rows(answer.sql), expected);
    });
  }

  it('at least 80 questions', () => {
    expect(questions.length).toBeGreaterThan(80);
  });
});

describe('asks the engine', () => {
  it('for the tables once, and for the tree only after the tokens have passed', async () => {
    const asked: string[] = [];
    const engine = {
      database: 'questlog',
      ast: (sql: string) => Promise.resolve(`${asked.push(sql)}`),
      tables: () => Promise.resolve([`${asked.push('tables')}`]),
    };
    expect(await selectOnly('SELECT 1 SETTINGS readonly = 0', engine)).toMatchObject({ ok: false });
    expect(asked).toEqual(['tables']);
    expect(await selectOnly('SELECT 1', engine)).toEqual({
      ok: false,
      detail: 'the query is not understood',
    });
    expect(asked).toEqual(['tables', 'tables', 'EXPLAIN AST SELECT 1']);
  });

  it('and passes on that it cannot be asked', async () => {
    const engine = {
      database: 'questlog',
      ast: () => Promise.reject(new Error('socket hang up')),
      tables: () => Promise.resolve([]),
    };
    await expect(selectOnly('SELECT 1', engine)).rejects.toThrow('socket hang up');
  });
});

function unguarded(query: string): string {
  try {
    return sandbox.run(query);
  } catch (error) {
    return String(error);
  }
}

/** A string is looked for in the whole answer; rows are compared. */
function expectRows(rows: unknown[], expected: unknown[] | string): void {
  if (typeof expected === 'string') expect(JSON.stringify(rows)).toContain(expected);
  else expect(rows).toEqual(expected);
}
