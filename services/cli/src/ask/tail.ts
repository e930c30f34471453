/** `questlog tail`: the events of now, a line each, as the log takes them. */
import { once } from 'node:events';
import { styleText } from 'node:util';
import { Unavailable } from '@questlog/runtime/process/errors';
import { Backoff, pause, withinLimit } from '@questlog/runtime/process/waiting';
import { Command, InvalidArgumentError } from 'commander';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { example } from '../manage.ts';
import { count, forTerminal, withPayload } from '../print.ts';
import type { Reach } from '../reach.ts';

/** The server says something each second. */
const SILENT_MS = 15_000;
const COUNT_AGAIN_MS = 5_000;
const TYPE_COLUMNS = 24;
const SESSION_COLUMNS = 8;
/** Of a terminal that does not say. */
const COLUMNS = 80;

interface Options {
  readonly json?: boolean;
  readonly project?: string;
  readonly type?: string;
  readonly session?: string;
  readonly player?: string;
  readonly where?: string;
}

export function tailCommand(at: () => Promise<Reach>): Command {
  const command = new Command('tail')
    .description('the events of now, as they come; Ctrl-C ends')
    .option('--project <id>', 'of one game only')
    .option('--type <eventType>', 'of one type only')
    .option('--session <id>', 'of one session only')
    .option('--player <externalId>', 'of one player’s sessions only')
    .option('--where <path=value>', 'with this value in the payload, as at.level=3', pathAndValue)
    .option('--json', 'NDJSON for programs, each payload as the game sent it but for line breaks in it');
  example(command, 'questlog tail --type checkpoint --where level=3\n  questlog tail --json | jq .payload');
  return command.action(async ({ json = false, ...filters }: Options) => {
    const stop = new AbortController();
    onInterrupt(() => stop.abort());
    const lineOf = json ? jsonLine : line;
    await tail(at, `/admin/tail?${new URLSearchParams(Object.entries(filters))}`, {
      signal: stop.signal,
      onEvents: async (events) => {
        if (process.stdout.write(events.map(lineOf).join(''))) return;
        await once(process.stdout, 'drain', { signal: stop.signal }).catch(() => undefined);
      },
    });
    process.exitCode = INTERRUPTED;
  });
}

function pathAndValue(text: string): string {
  if (/^[^=]+=/.test(text)) return text;
  throw new InvalidArgumentError('path=value is needed, as in level=3');
}

interface TailEvent {
  readonly sessionId: string | null;
  readonly eventType: string;
  readonly receivedAt: string;
  /** As the game sent it. */
  readonly payload: string;
}

interface Count {
  readonly matched: number;
  readonly shown: number;
  /** Records that the server did not look into, so as to have time for games. */
  readonly unreadRecords: number;
}

interface Looking {
  readonly signal: AbortSignal;
  onEvents(events: readonly TailEvent[]): Promise<void>;
}

/**
 * Until the signal aborts, also over restarts of the server, whose address the credentials may give anew.
 * @throws Unavailable where it does not answer at first; Refused.
 */
async function tail(at: () => Promise<Reach>, path: string, { signal, onEvents }: Looking): Promise<void> {
  const backoff = new Backoff(500, 5_000);
  const counts = new Counts();
  for (let hasBegun = false; !signal.aborted; ) {
    try {
      const stream = await (await at()).admin.request('GET', path, { signal });
      say(hasBegun ? 'connected again; what came in between is not shown' : 'following; Ctrl-C ends');
      hasBegun = true;
      backoff.reset();
      for await (const { event, data } of messagesOf(stream)) {
        if (event === 'events') await onEvents(JSON.parse(data));
        if (event === 'count') counts.take(JSON.parse(data));
      }
    } catch (error) {
      if (signal.aborted) break;
      if (!hasBegun || !(error instanceof Unavailable)) throw error;
    }
    counts.tell();
    if (signal.aborted) break;
    const pauseMs = backoff.next();
    say(`Questlog does not answer any more; trying again in ${pauseMs / 1000} s`);
    await pause(pauseMs, signal);
  }
}

/** Says how many events were not shown: not more often than somebody wants to read it. */
class Counts {
  #told = '';
  #toldAtMs = Number.NEGATIVE_INFINITY;
  #now: Count = { matched: 0, shown: 0, unreadRecords: 0 };

  /** @param now of this connection. */
  take(now: Count): void {
    this.#now = now;
    if (performance.now() - this.#toldAtMs >= COUNT_AGAIN_MS) this.tell();
  }

  tell(): void {
    const { matched, shown, unreadRecords } = this.#now;
    const unread =
      unreadRecords === 0 ? '' : `; ${count(unreadRecords)} records of the log were not looked into`;
    const told = `showing ${count(shown)} of ${count(matched)}${unread}`;
    if ((shown === matched && unread === '') || told === this.#told) return;
    say(told);
    this.#told = told;
    this.#toldAtMs = performance.now();
  }
}

interface Message {
  readonly event: string;
  readonly data: string;
}

/** Server-sent events, until the connection ends or is silent. */
async function* messagesOf(stream: Response): AsyncGenerator<Message> {
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) return;
  const ended = { done: true, value: undefined } as const;
  let begun = '';
  let message: Message = { event: 'message', data: '' };
  for (;;) {
    const reading = reader.read().catch(() => ended);
    const { done, value } = await withinLimit<Awaited<typeof reading>>(reading, SILENT_MS, () => ended);
    if (done) break;
    const [first = '', ...rest] = value.split('\n');
    begun += first;
    for (const next of rest) {
      const [, field, text = ''] = /^(event|data): (.*)$/s.exec(begun) ?? [];
      if (field !== undefined) message = { ...message, [field]: text };
      if (begun === '') {
        yield message;
        message = { event: 'message', data: '' };
      }
      begun = next;
    }
  }
  await reader.cancel().catch(() => undefined);
}

function say(text: string): void {
  process.stderr.write(`${forTerminal(text)}\n`);
}

/** A payload may hold line breaks between its fields: inside its texts JSON allows none. */
function jsonLine({ payload, ...event }: TailEvent): string {
  return `${withPayload(event, payload.replace(/[\r\n]/g, ' '))}\n`;
}

function line({ receivedAt, eventType, sessionId, payload }: TailEvent): string {
  const at = new Date(receivedAt);
  const time = `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, '0')}`;
  const type = cut(onOneLine(eventType), TYPE_COLUMNS).padEnd(TYPE_COLUMNS);
  const session = (sessionId ?? '-').slice(0, SESSION_COLUMNS).padEnd(SESSION_COLUMNS);
  const left = (process.stdout.columns || COLUMNS) - time.length - TYPE_COLUMNS - SESSION_COLUMNS - 3;
  const rest = process.stdout.isTTY ? cut(onOneLine(payload), left) : onOneLine(payload);
  return `${styleText('dim', time)} ${styleText('cyan', type)} ${styleText('dim', session)} ${rest}\n`;
}

function onOneLine(text: string): string {
  return forTerminal(text.replace(/[\r\n\t]/g, ' '));
}

const IS_WIDE =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}]/u;

/** To so many columns of a terminal. */
function cut(text: string, columns: number): string {
  let used = 0;
  let kept = '';
  for (const character of text) {
    used += IS_WIDE.test(character) ? 2 : 1;
    if (used > columns) return `${kept}…`;
    if (used < columns) kept += character;
  }
  return text;
}
