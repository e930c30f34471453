/** The command `questlog send`. It sends events from an argument, a file, or standard input. Retries create no duplicates. */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { Unavailable } from '@questlog/runtime/process/errors';
import { eventId } from '@questlog/schemas/uuid';
import { Command } from 'commander';
import type { Connection } from './connection.ts';
import { INTERRUPTED, onInterrupt } from './interrupt.ts';
import { example } from './manage.ts';
import { type Line, MAX_LINE_BYTES, readLines } from './ndjson.ts';
import { count, escapeControls, Progress } from './print.ts';

const MAX_EVENTS_PER_REQUEST = 200;
const MAX_BYTES_PER_REQUEST = MAX_LINE_BYTES;

export function sendCommand(connect: () => Promise<Connection>): Command {
  const command = new Command('send')
    .description('send events as a game does')
    .argument('[event]', 'one event as JSON; without a sessionId, the event gets the session of the demo')
    .option('--file <path>', 'file with one event per line (NDJSON); - reads standard input')
    .option('--json', 'print the responses as JSON');
  example(
    command,
    `questlog send '{"eventType": "checkpoint", "payload": {"level": 3}}'\n  questlog send --file events.ndjson`,
  );
  return command.action(async (event: string | undefined, options: { file?: string; json?: boolean }) => {
    if ((event === undefined) === (options.file === undefined)) {
      command.error('error: either an event or --file is needed');
    }
    const connection = await connect();
    const startedMs = performance.now();
    const progress = new Progress();
    let sent = 0;
    let inFlight = 0;
    const reportStored = (): void => {
      progress.clear();
      process.stderr.write(storedText(sent, inFlight));
    };
    const onExit = (): void => {
      process.exitCode ||= 1;
      reportStored();
    };
    process.on('exit', onExit);
    onInterrupt(() => process.exit(INTERRUPTED));
    try {
      for await (const batch of batches(eventLines(event, options.file), connection.demoSessionId)) {
        inFlight = batch.length;
        const answer = await post(connection, batch);
        sent += batch.length;
        inFlight = 0;
        if (options.json === true) process.stdout.write(`${escapeControls(await answer.text())}\n`);
        const perSecond = (sent * 1000) / (performance.now() - startedMs);
        progress.show(`${count(sent)} events, ${count(Math.round(perSecond))} a second`);
      }
    } catch (error) {
      if (!(error instanceof Unavailable)) inFlight = 0;
      reportStored();
      throw error;
    } finally {
      process.off('exit', onExit);
    }
    progress.clear();
    process.stderr.write(`${count(sent)} ${sent === 1 ? 'event' : 'events'} stored\n`);
  });
}

/** Returns how many events of the file are stored, so that the user can send only the other events after a failure. */
function storedText(sent: number, inFlight: number): string {
  const parts: string[] = [];
  if (sent > 0) parts.push(`the first ${count(sent)} events are stored`);
  if (inFlight > 0) parts.push(`events ${count(sent + 1)} to ${count(sent + inFlight)} may be stored`);
  if (parts.length === 0) return '';
  return `${parts.join('; ')}\n`;
}

async function* eventLines(event: string | undefined, file: string | undefined): AsyncGenerator<Line> {
  if (event !== undefined) yield { number: 1, text: event };
  else yield* readLines(file === '-' ? process.stdin : createReadStream(file ?? ''));
}

/** Yields batches of lines. @throws Error that names a line that is not a JSON object. */
export async function* batches(
  lines: AsyncIterable<Line>,
  sessionId: string | undefined,
): AsyncGenerator<string[]> {
  let batch: string[] = [];
  let bytes = 0;
  for await (const { number, text } of lines) {
    if (text.trim() === '') continue;
    const line = withSession(text, number, sessionId);
    const lineBytes = Buffer.byteLength(line);
    if (
      batch.length === MAX_EVENTS_PER_REQUEST ||
      (batch.length > 0 && bytes + lineBytes > MAX_BYTES_PER_REQUEST)
    ) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(line);
    bytes += lineBytes;
  }
  if (batch.length > 0) yield batch;
}

/** Adds a session id to a line. Edits the text of the line, so that the payload keeps its exact bytes. */
function withSession(line: string, number: number, sessionId: string | undefined): string {
  const event = parsed(line);
  if (event === undefined) throw new Error(`line ${number} is not a JSON object`);
  if (sessionId === undefined || 'sessionId' in event) return line;
  const rest = line.trim().slice(1).trimStart();
  return `{"sessionId":"${sessionId}"${rest === '}' ? '' : ','}${rest}`;
}

function parsed(line: string): object | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Sends a batch. All attempts use the same idempotency key. A single event is sent as an object, not as an array. */
async function post({ game }: Connection, batch: readonly string[]): Promise<Response> {
  const key = eventId(Date.now(), randomBytes(2).readUInt16BE() & 0xfff, randomBytes(8));
  const body = batch.length === 1 ? (batch[0] ?? '') : `[${batch.join(',')}]`;
  return await game.retried('createEvents', { body, headers: { 'Idempotency-Key': key } });
}
