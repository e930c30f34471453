/** The command `questlog tail`. It prints new events, one event per line. */
import { once } from 'node:events';
import { styleText } from 'node:util';
import { Unavailable } from '@questlog/runtime/process/errors';
import { Backoff, retry, withinLimit } from '@questlog/runtime/process/waiting';
import type { TailCount, TailEvent } from '@questlog/schemas/http/tail';
import { Command, InvalidArgumentError } from 'commander';
import type { Connection } from '../connection.ts';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { example } from '../manage.ts';
import { count, forTerminal, withPayload } from '../print.ts';

/** Maximum time without data on the connection of a live tail. Normally, Questlog sends a message every second. */
const SILENCE_TIMEOUT_MS = 15_000;
const COUNT_INTERVAL_MS = 5_000;
const TYPE_WIDTH = 24;
const SESSION_WIDTH = 8;
const DEFAULT_WIDTH = 80;

interface Options {
  readonly json?: boolean;
  readonly project?: string;
  readonly type?: string;
  readonly session?: string;
  readonly player?: string;
  readonly where?: string;
}

export function tailCommand(connect: () => Promise<Connection>): Command {
  const command = new Command('tail')
    .description('print new events as they arrive; Ctrl-C stops')
    .option('--project <id>', 'only events of this project')
    .option('--type <eventType>', 'only events of this type')
    .option('--session <id>', 'only events of this session')
    .option('--player <externalId>', 'only events of this player’s sessions')
    .option(
      '--where <path=value>',
      'only events with this value in the payload, such as at.level=3',
      pathAndValue,
    )
    .option('--json', 'print NDJSON; payloads are unchanged except for line breaks');
  example(command, 'questlog tail --type checkpoint --where level=3\n  questlog tail --json | jq .payload');
  return command.action(async ({ json = false, ...filters }: Options) => {
    const stop = new AbortController();
    onInterrupt(() => stop.abort());
    const lineOf = json ? jsonLine : textLine;
    await tail(connect, filters, {
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
  throw new InvalidArgumentError('it must be path=value, such as level=3');
}

interface TailHandlers {
  readonly signal: AbortSignal;
  onEvents(events: readonly TailEvent[]): Promise<void>;
}

/**
 * Prints new events until the signal aborts. Reads the credentials before each connection, because a restart of Questlog can
 * change the address. @throws Unavailable if the first connection fails.
 */
async function tail(
  connect: () => Promise<Connection>,
  query: Readonly<Record<string, string>>,
  { signal, onEvents }: TailHandlers,
): Promise<void> {
  const backoff = new Backoff(500, 5_000);
  const counts = new CountReporter();
  let hasConnected = false;
  const follow = async (): Promise<void> => {
    const stream = await (await connect()).admin.request('streamEvents', { query, signal });
    printStatus(
      hasConnected ? 'connected again; events in between are not shown' : 'following; Ctrl-C stops',
    );
    hasConnected = true;
    backoff.reset();
    for await (const { event, data } of serverSentEvents(stream)) {
      if (event === 'events') await onEvents(JSON.parse(data));
      if (event === 'count') counts.update(JSON.parse(data));
    }
    counts.report();
    throw new Unavailable('the connection ended');
  };
  await retry(follow, {
    signal,
    backoff,
    isRetryable: (error) => hasConnected && error instanceof Unavailable,
    onDelay: (_, pauseMs) =>
      printStatus(`Questlog does not answer; retrying in ${(pauseMs / 1000).toFixed(1)} s`),
  }).catch((error) => {
    if (!signal.aborted) throw error;
  });
}

class CountReporter {
  #lastText = '';
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  #count: TailCount = { matched: 0, shown: 0, unreadRecords: 0 };

  update(now: TailCount): void {
    this.#count = now;
    if (performance.now() - this.#reportedAtMs >= COUNT_INTERVAL_MS) this.report();
  }

  report(): void {
    const { matched, shown, unreadRecords } = this.#count;
    const unread = unreadRecords === 0 ? '' : `; skipped ${count(unreadRecords)} records of the log`;
    const text = `showing ${count(shown)} of ${count(matched)}${unread}`;
    if ((shown === matched && unread === '') || text === this.#lastText) return;
    printStatus(text);
    this.#lastText = text;
    this.#reportedAtMs = performance.now();
  }
}

interface ServerSentEvent {
  readonly event: string;
  readonly data: string;
}

/** Yields server-sent events until the connection ends or receives no data for `SILENCE_TIMEOUT_MS`. */
async function* serverSentEvents(stream: Response): AsyncGenerator<ServerSentEvent> {
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) return;
  const ended = { done: true, value: undefined } as const;
  let partialLine = '';
  let message: ServerSentEvent = { event: 'message', data: '' };
  for (;;) {
    const reading = reader.read().catch(() => ended);
    const { done, value } = await withinLimit<Awaited<typeof reading>>(
      reading,
      SILENCE_TIMEOUT_MS,
      () => ended,
    );
    if (done) break;
    const [first = '', ...rest] = value.split('\n');
    partialLine += first;
    for (const next of rest) {
      const [, field, text = ''] = /^(event|data): (.*)$/s.exec(partialLine) ?? [];
      if (field !== undefined) message = { ...message, [field]: text };
      if (partialLine === '') {
        yield message;
        message = { event: 'message', data: '' };
      }
      partialLine = next;
    }
  }
  await reader.cancel().catch(() => undefined);
}

function printStatus(text: string): void {
  process.stderr.write(`${forTerminal(text)}\n`);
}

/** Formats an event as one line of JSON. Replaces line breaks by spaces, because JSON has line breaks only between tokens. */
function jsonLine({ payload, ...event }: TailEvent): string {
  return `${withPayload(event, payload.replace(/[\r\n]/g, ' '))}\n`;
}

function textLine({ receivedAt, eventType, sessionId, payload }: TailEvent): string {
  const at = new Date(receivedAt);
  const time = `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, '0')}`;
  const type = truncate(singleLine(eventType), TYPE_WIDTH).padEnd(TYPE_WIDTH);
  const session = (sessionId ?? '-').slice(0, SESSION_WIDTH).padEnd(SESSION_WIDTH);
  const left = (process.stdout.columns || DEFAULT_WIDTH) - time.length - TYPE_WIDTH - SESSION_WIDTH - 3;
  const rest = process.stdout.isTTY ? truncate(singleLine(payload), left) : singleLine(payload);
  return `${styleText('dim', time)} ${styleText('cyan', type)} ${styleText('dim', session)} ${rest}\n`;
}

function singleLine(text: string): string {
  return forTerminal(text.replace(/[\r\n\t]/g, ' '));
}

const IS_WIDE =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}]/u;

function truncate(text: string, columns: number): string {
  let used = 0;
  let result = '';
  for (const character of text) {
    used += IS_WIDE.test(character) ? 2 : 1;
    if (used > columns) return `${result}…`;
    if (used < columns) result += character;
  }
  return text;
}
