/** The interactive prompt of `questlog sql`. It supports statements of several lines, a history, and completion of names. */
import { appendFileSync, chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import type { Readable, Writable } from 'node:stream';
import { messageOf } from '@questlog/runtime/process/errors';
import { withinLimit } from '@questlog/runtime/process/waiting';
import { forTerminal } from '../print.ts';
import { completions, type Names, onOneLine, splitStatements } from './statements.ts';

const PROMPT = 'questlog> ';
const CONTINUATION_PROMPT = '       -> ';
/** Maximum time that a completion waits for the names of tables and columns. The user cannot type during this time. */
const NAMES_TIMEOUT_MS = 1_000;
const NO_NAMES: Names = { tables: [], columns: [] };
const HISTORY_ENTRIES = 1_000;
const HISTORY_ENTRY_CHARACTERS = 10_000;

export interface PromptOptions {
  readonly input: Readable;
  readonly output: Writable;
  readonly historyPath: string;
  execute(statement: string, signal: AbortSignal): Promise<void>;
  loadNames(signal: AbortSignal): Promise<Names>;
}

/** Runs the prompt until Ctrl-D, `exit`, or `quit`. Prints errors and continues. */
export async function runPrompt({
  input,
  output,
  historyPath,
  execute,
  loadNames,
}: PromptOptions): Promise<void> {
  const print = (text: string): void => void output.write(`${forTerminal(text)}\n`);
  const end = new AbortController();
  const loadedNames = loadNames(end.signal).catch(() => NO_NAMES);
  const history = openHistory(historyPath, print);
  const lines = createInterface({
    input,
    output,
    terminal: true,
    prompt: PROMPT,
    historySize: HISTORY_ENTRIES,
    history: history.entries(),
    completer: async (line: string) =>
      completions(line, await withinLimit(loadedNames, NAMES_TIMEOUT_MS, () => NO_NAMES)),
  });
  // Replaces readline's history of single lines by the history of whole statements, because a statement can have several lines.
  lines.on('history', (readlineHistory) =>
    readlineHistory.splice(0, readlineHistory.length, ...history.entries()),
  );
  let pending = '';
  let running: AbortController | undefined;
  lines.on('SIGINT', () => {
    if (running !== undefined) return running.abort();
    pending = '';
    for (const name of ['e', 'u']) lines.write(null, { ctrl: true, name });
    output.write('\n');
    lines.setPrompt(PROMPT);
    lines.prompt();
  });
  let isOpen = true;
  lines.on('close', () => {
    isOpen = false;
  });

  lines.prompt();
  for await (const line of lines) {
    if (pending === '' && /^\s*(exit|quit)\s*;?\s*$/i.test(line)) break;
    const { statements, rest } = splitStatements(pending === '' ? line : `${pending}\n${line}`);
    pending = rest;
    for (const statement of statements) {
      history.add(`${onOneLine(statement)};`);
      running = new AbortController();
      const { signal } = running;
      await execute(statement, signal).catch((error: unknown) => {
        print(signal.aborted ? 'canceled' : messageOf(error));
      });
      running = undefined;
    }
    lines.setPrompt(pending === '' ? PROMPT : CONTINUATION_PROMPT);
    if (isOpen) lines.prompt();
  }
  lines.close();
  end.abort();
  output.write('\n');
}

interface History {
  /** Returns the statements with the newest first, as readline expects. */
  entries(): string[];
  add(statement: string): void;
}

/** Opens a history file that only its owner can read, because a statement can contain the name of a player. */
function openHistory(path: string, print: (text: string) => void): History {
  let entries = read(path);
  let isWritable = true;
  const tryWrite = (work: () => void): void => {
    if (!isWritable) return;
    try {
      work();
    } catch (error) {
      isWritable = false;
      print(`the history cannot be saved: ${messageOf(error)}`);
    }
  };
  tryWrite(() => {
    writeFileSync(path, entries.map((entry) => `${entry}\n`).join(''), { mode: 0o600 });
    chmodSync(path, 0o600);
  });
  return {
    entries: () => entries.toReversed(),
    add: (statement) => {
      if (statement.length > HISTORY_ENTRY_CHARACTERS || statement === entries.at(-1)) return;
      entries = [...entries, statement].slice(-HISTORY_ENTRIES);
      tryWrite(() => appendFileSync(path, `${statement}\n`, { mode: 0o600 }));
    },
  };
}

function read(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n').filter(Boolean).slice(-HISTORY_ENTRIES);
  } catch {
    return [];
  }
}
