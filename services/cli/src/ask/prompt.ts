/** The prompt of `questlog sql`: statements over several lines, their answers, a history, completion of names. */
import { appendFileSync, chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import type { Readable, Writable } from 'node:stream';
import { messageOf } from '@questlog/runtime/process/errors';
import { withinLimit } from '@questlog/runtime/process/waiting';
import { forTerminal } from '../print.ts';
import { completions, type Names, onOneLine, splitStatements } from './statements.ts';

const PROMPT = 'questlog> ';
const GOES_ON = '       -> ';
/** Nothing can be typed while they are waited for. */
const NAMES_WITHIN_MS = 1_000;
const NONE: Names = { tables: [], columns: [] };
const HISTORY_ENTRIES = 1_000;
const HISTORY_ENTRY_CHARACTERS = 10_000;

export interface Conversation {
  /** A terminal. */
  readonly input: Readable;
  readonly output: Writable;
  /** Whose statements are kept, the oldest first. */
  readonly historyPath: string;
  /** Prints the answer. */
  ask(statement: string, signal: AbortSignal): Promise<void>;
  /** To complete; asked once. */
  names(signal: AbortSignal): Promise<Names>;
}

/** Until Ctrl-D, `exit` or `quit`. No error ends it. */
export async function converse({ input, output, historyPath, ask, names }: Conversation): Promise<void> {
  const say = (text: string): void => void output.write(`${forTerminal(text)}\n`);
  const end = new AbortController();
  const known = names(end.signal).catch(() => NONE);
  const history = openHistory(historyPath, say);
  const lines = createInterface({
    input,
    output,
    terminal: true,
    prompt: PROMPT,
    historySize: HISTORY_ENTRIES,
    history: history.entries(),
    completer: async (line: string) =>
      completions(line, await withinLimit(known, NAMES_WITHIN_MS, () => NONE)),
  });
  // Readline keeps lines, and the history of statements takes their place.
  lines.on('history', (kept) => kept.splice(0, kept.length, ...history.entries()));
  let typed = '';
  let running: AbortController | undefined;
  lines.on('SIGINT', () => {
    if (running !== undefined) return running.abort();
    typed = '';
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
    if (typed === '' && /^\s*(exit|quit)\s*;?\s*$/i.test(line)) break;
    const { ended, begun } = splitStatements(typed === '' ? line : `${typed}\n${line}`);
    typed = begun;
    for (const statement of ended) {
      history.add(`${onOneLine(statement)};`);
      running = new AbortController();
      const { signal } = running;
      await ask(statement, signal).catch((error: unknown) => {
        say(signal.aborted ? 'no longer awaited' : messageOf(error));
      });
      running = undefined;
    }
    lines.setPrompt(typed === '' ? PROMPT : GOES_ON);
    if (isOpen) lines.prompt();
  }
  lines.close();
  end.abort();
  output.write('\n');
}

interface History {
  /** As readline has them: the newest first. */
  entries(): string[];
  add(statement: string): void;
}

/** Readable by its owner only: a statement may name a player. */
function openHistory(path: string, say: (text: string) => void): History {
  let entries = read(path);
  let isKept = true;
  const keep = (work: () => void): void => {
    if (!isKept) return;
    try {
      work();
    } catch (error) {
      isKept = false;
      say(`the history is not kept: ${messageOf(error)}`);
    }
  };
  keep(() => {
    writeFileSync(path, entries.map((entry) => `${entry}\n`).join(''), { mode: 0o600 });
    chmodSync(path, 0o600);
  });
  return {
    entries: () => entries.toReversed(),
    add: (statement) => {
      if (statement.length > HISTORY_ENTRY_CHARACTERS || statement === entries.at(-1)) return;
      entries = [...entries, statement].slice(-HISTORY_ENTRIES);
      keep(() => appendFileSync(path, `${statement}\n`, { mode: 0o600 }));
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
