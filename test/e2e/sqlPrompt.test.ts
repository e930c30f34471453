/** Tests `questlog sql` in a terminal. The command shows a prompt with a history, and continues after errors. */
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { aStranger, atTerminal, type Terminal, testAtTerminal } from './questlogCommand.ts';
import { sharedProduct } from './sharedProduct.ts';

const [CTRL_C, CTRL_D, TAB, ENTER, UP] = ['\x03', '\x04', '\t', '\r', '\x1b[A'];
const shared = sharedProduct();
let home: string;

beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'questlog-prompt-'));
});

afterAll(() => rmSync(home, { recursive: true, force: true }));

function prompt(...args: string[]): Terminal {
  return promptAt(shared.product.credentials.adminUrl, ...args);
}

function promptAt(url: string, ...args: string[]): Terminal {
  const { adminToken } = shared.product.credentials;
  return atTerminal(['sql', ...args], {
    ...{ HOME: home, QUESTLOG_ADMIN_URL: url, QUESTLOG_ADMIN_TOKEN: adminToken },
  });
}

testAtTerminal(
  'statements over several lines are answered, and an error does not end the prompt',
  async () => {
    const terminal = prompt();
    await terminal.shows('questlog> ');
    terminal.type(`SELECT nothing_of_this_name;${ENTER}`);
    await terminal.shows(/Unknown.*nothing_of_this_name/s);
    terminal.type(`SELECT 41 + 1${ENTER}`);
    await terminal.shows('-> ');
    terminal.type(`AS answer;${ENTER}`);
    await terminal.shows('│     42 │');
    await terminal.shows('questlog> ');

    terminal.type(`SELECT 6 * 7 AS last_one;${ENTER}${CTRL_D}`);

    const { code, screen } = await terminal.ended();
    expect(code).toBe(0);
    expect(screen).toContain('│       42 │');
  },
);

testAtTerminal('Tab completes names, and Ctrl-C clears what is typed', async () => {
  const terminal = prompt('--format', 'TSV');
  await terminal.shows('questlog> ');
  terminal.type(`SELECT lin${ENTER}`);
  await terminal.shows('-> ');
  terminal.type(`from report_l${TAB}`);
  await terminal.shows('report_link');
  terminal.type(CTRL_C);
  await terminal.shows('questlog> ');
  terminal.type(`SELECT 'of', 'now';${ENTER}`);
  await terminal.shows('of\tnow');
  terminal.type(`exit${ENTER}`);

  expect((await terminal.ended()).code).toBe(0);
});

testAtTerminal('Ctrl-C cancels a running query, and the prompt continues', async () => {
  let asked = '';
  const url = await aStranger((request) => {
    request.on('data', (piece) => {
      asked += piece;
    });
  });
  const terminal = promptAt(url);
  await terminal.shows('questlog> ');
  terminal.type(`SELECT for_ever;${ENTER}`);
  await expect.poll(() => asked).toContain('for_ever');
  terminal.type(CTRL_C);
  await terminal.shows('canceled');
  await terminal.shows('questlog> ');
  terminal.type(CTRL_D);

  expect((await terminal.ended()).code).toBe(0);
});

testAtTerminal('a later prompt has the statements of earlier ones, for their owner only', async () => {
  const path = join(home, '.questlog_history');
  const first = prompt('--format', 'TSV');
  await first.shows('questlog> ');
  first.type(`SELECT 'a',${ENTER}`);
  await first.shows('-> ');
  first.type(`  'kept' -- by me${ENTER};${ENTER}`);
  await first.shows('a\tkept');
  first.type(CTRL_D);
  await first.ended();

  const second = prompt('--format', 'TSV');
  await second.shows('questlog> ');
  second.type(`${UP}${ENTER}`);
  await second.shows('a\tkept');
  second.type(CTRL_D);
  await second.ended();

  expect(readFileSync(path, 'utf8').trimEnd().split('\n').at(-1)).toBe("SELECT 'a', 'kept';");
  expect(statSync(path).mode & 0o777).toBe(0o600);
});
