/**
 * Formats a linked event as a server-sent message (WHATWG HTML, section 9.2). Does not parse the payload. If the payload
 * contains line breaks between JSON tokens, clients receive each of them as LF. Pure.
 */

import { formatMicros } from '@questlog/schemas/isoTime';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';

export interface MessageOptions {
  /** Message id. A reconnecting client sends its latest message id, and the stream continues after this message. */
  readonly positionId: string;
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

/** Time range of linked events that expired before the client received them. */
export interface Gap {
  readonly fromMs: number | undefined;
  readonly toMs: number;
}

/** Formats a message about a gap. The message id is the position after the gap, so that a client receives the gap only once. */
export function gapText({ fromMs, toMs }: Gap, positionId: string): string {
  const from = fromMs === undefined ? 'null' : `"${formatMillis(Math.min(fromMs, toMs))}"`;
  return `event: gap\nid: ${positionId}\ndata: {"from":${from},"to":"${formatMillis(toMs)}"}\n\n`;
}

export function openingText(positionId: string, retryMs: number, gap?: Gap): string {
  return `retry: ${retryMs}\n${gap === undefined ? positionText(positionId) : gapText(gap, positionId)}`;
}

/** Formats a heartbeat. The client stores the id of the heartbeat as its new position, but dispatches no event. */
export function heartbeatText(positionId: string): string {
  return `: heartbeat\n${positionText(positionId)}`;
}

function positionText(positionId: string): string {
  return `id: ${positionId}\n\n`;
}

function formatMillis(millis: number): string {
  return formatMicros(BigInt(millis) * 1000n);
}

/** Splits the payload at each CR, LF, and CRLF, because each line of a server-sent message needs the prefix `data:`. */
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
