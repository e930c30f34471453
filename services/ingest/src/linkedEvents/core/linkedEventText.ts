/**
 * A change of a link as a message of a server-sent stream (WHATWG HTML, section 9.2), spliced from the payload's own
 * bytes. Pure.
 *
 * A payload may hold line ends, as JSON's insignificant whitespace (inside a string they are always escaped). Each ends a
 * `data` line, and a client joins the lines with LF: an LF comes back as it was, a CR or CRLF as an LF. That is all that
 * the framing cannot carry; the topic and ClickHouse hold the bytes as they came.
 */
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import { formatMicros } from '../../core/occurredAt.ts';

export interface MessageOptions {
  /** The position behind the message, which a client hands back to go on from there. */
  readonly positionId: string;
  /** Revision B has no such field. */
  readonly showsOverQuota: boolean;
}

export function linkedEventText(link: LinkedEvent, { positionId, showsOverQuota }: MessageOptions): Buffer {
  const { id, sessionId, buildId, eventType, occurredAt, receivedAt, payload, overQuota, sequence } =
    link.event;
  const session = sessionId === null ? 'null' : `"${sessionId}"`;
  const build = buildId === null ? 'null' : `"${buildId}"`;
  const sequenceField = sequence === null ? '' : `,"sequence":${sequence}`;
  const quota = showsOverQuota ? `,"overQuota":${overQuota}` : '';
  return Buffer.concat([
    Buffer.from(
      `event: ${link.kind}\nid: ${positionId}\n` +
        `data: {"linkId":"${link.linkId}","kind":"${link.kind}","version":${link.version},` +
        `"reportId":"${link.reportId}","source":"${link.source}","changedAt":"${formatMillis(link.changedAt)}",` +
        `"event":{"id":"${id}","sessionId":${session},"buildId":${build},"eventType":${JSON.stringify(eventType)},` +
        `"occurredAt":"${formatMicros(occurredAt)}","receivedAt":"${formatMillis(receivedAt)}"${sequenceField},"payload":`,
    ),
    ...dataLines(payload),
    Buffer.from(`${quota}}}\n\n`),
  ]);
}

/** The time range of links that expired before the client received them, in milliseconds since the epoch. */
export interface Gap {
  /** Undefined if the time is unknown. */
  readonly fromMs: number | undefined;
  readonly toMs: number;
}

/**
 * Returns the message that reports a gap. Its id is a position after the gap, so that a client that resumes there does
 * not receive the message again.
 */
export function gapText({ fromMs, toMs }: Gap, positionId: string): string {
  const from = fromMs === undefined ? 'null' : `"${formatMillis(Math.min(fromMs, toMs))}"`;
  return `event: gap\nid: ${positionId}\ndata: {"from":${from},"to":"${formatMillis(toMs)}"}\n\n`;
}

/** The first lines: how long to wait before coming back, and where the stream begins. */
export function openingText(positionId: string, retryMs: number, gap?: Gap): string {
  return `retry: ${retryMs}\n${gap === undefined ? positionText(positionId) : gapText(gap, positionId)}`;
}

/** Tells that the connection lives and moves the client's position on; without data no message is dispatched. */
export function heartbeatText(positionId: string): string {
  return `: heartbeat\n${positionText(positionId)}`;
}

function positionText(positionId: string): string {
  return `id: ${positionId}\n\n`;
}

function formatMillis(millis: number): string {
  return formatMicros(BigInt(millis) * 1000n);
}

/** The bytes as the rest of a `data` line; CR, LF and CRLF each begin the next one. */
function dataLines(bytes: Buffer): Buffer[] {
  if (!bytes.includes(LF) && !bytes.includes(CR)) return [bytes];
  const parts: Buffer[] = [];
  let start = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte !== LF && byte !== CR) continue;
    parts.push(bytes.subarray(start, at), NEXT_DATA_LINE);
    if (byte === CR && bytes[at + 1] === LF) at++;
    start = at + 1;
  }
  parts.push(bytes.subarray(start));
  return parts;
}

const LF = 0x0a;
const CR = 0x0d;
const NEXT_DATA_LINE = Buffer.from('\ndata: ');
