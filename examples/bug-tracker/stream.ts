/**
 * A bug tracker that follows `GET /v1/linked-events` and prints the events of a report after each change. After a lost
 * connection or a restart, the tracker continues at its saved position.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { openTrails } from './trail.ts';

interface Message {
  readonly event: string | undefined;
  readonly id: string | undefined;
  readonly data: string | undefined;
}

/** The tracker treats a connection without data for this time as lost. Questlog sends a keep-alive message every 15 s. */
const SILENCE_MS = 45_000;
const RETRY_MS = 1_000;

const { baseUrl, token: accessToken } = access();
const trails = openTrails(process.env['TRAIL_FILE'] ?? pathOf('.data/stream.json'));
let position = trails.token;

for (;;) {
  const waitMs = await follow().catch((error: Error) => {
    console.error(`the connection broke: ${error.message}`);
    return RETRY_MS;
  });
  await pause(waitMs);
}

/** Follows the stream until Questlog ends the stream. Returns the number of milliseconds to wait before the next connection. */
async function follow(): Promise<number> {
  const silence = new AbortController();
  const watch = setTimeout(() => silence.abort(new Error('the server is silent')), SILENCE_MS);
  try {
    const response = await fetch(`${baseUrl}/v1/linked-events?from=start`, {
      headers: {
        Authorization: `Bearer ${accessToken}`,
        ...(position === undefined ? {} : { 'Last-Event-ID': position }),
      },
      signal: silence.signal,
    });
    if (response.status === 503) return 1_000 * Number(response.headers.get('Retry-After') ?? 1);
    // An error status other than 503 ends the tracker, because a retry would fail in the same way.
    if (!response.ok || response.body === null) giveUp(`${response.status}: ${await response.text()}`);
    let rest = '';
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      watch.refresh();
      const blocks = (rest + text).split('\n\n');
      rest = blocks.pop() ?? '';
      receive(blocks.map(messageOf));
    }
    return RETRY_MS;
  } finally {
    clearTimeout(watch);
  }
}

/** Prints the changed reports, then saves their links. A crash before the save makes the tracker print the reports again. */
function receive(messages: readonly Message[]): void {
  const changed = new Set<string>();
  for (const { event, id, data } of messages) {
    if (event === 'gap' && data !== undefined) printGap(JSON.parse(data));
    // Ignores unknown messages, because a later version of Questlog can add messages.
    if ((event === 'linked' || event === 'unlinked') && data !== undefined) {
      const change = JSON.parse(data);
      if (trails.apply(change)) changed.add(change.reportId);
    }
    position = id ?? position;
  }
  for (const reportId of changed) trails.print(reportId);
  if (messages.length > 0) trails.save(position);
}

function printGap({ from, to }: { from: string | null; to: string }): void {
  const range = `${from === null ? 'until' : `from ${from} to`} ${to}`;
  console.error(`links ${range} were not received: GET /v1/reports/{id}/events has the links of a report`);
}

/** Parses one server-sent event (WHATWG HTML, section 9.2). Ignores comments and unknown field names. */
function messageOf(block: string): Message {
  const valuesOf = (name: string): string[] =>
    block.split('\n').flatMap((line) => (line.startsWith(`${name}: `) ? [line.slice(name.length + 2)] : []));
  const data = valuesOf('data');
  return {
    event: valuesOf('event').at(-1),
    id: valuesOf('id').at(-1),
    data: data.length === 0 ? undefined : data.join('\n'),
  };
}

function access(): { baseUrl: string; token: string } {
  const { QUESTLOG_URL: baseUrl, QUESTLOG_TOKEN: token } = process.env;
  if (baseUrl !== undefined && token !== undefined) return { baseUrl, token };
  return JSON.parse(readFileSync(pathOf('../../.data/dev-credentials.json'), 'utf8'));
}

function pathOf(path: string): string {
  return fileURLToPath(new URL(path, import.meta.url));
}

function giveUp(reason: string): never {
  console.error(reason);
  process.exit(1);
}

function pause(millis: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, millis));
}
