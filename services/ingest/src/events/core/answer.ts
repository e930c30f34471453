/** Splices answers from the very payload bytes that came in; nothing of a payload is parsed or escaped again. Pure. */
import { type ElementProblem, problemOf } from '@questlog/schemas/http/problem';
import type { AcceptedEvent } from '@questlog/schemas/topics/eventsAccepted';
import { formatMicros } from '../../core/occurredAt.ts';

/** An event as any answer shows it. */
export interface AnsweredEvent extends Omit<AcceptedEvent, 'overQuota'> {
  readonly reportIds: readonly string[];
  /** Undefined in revision B, whose answers have no such field. */
  readonly overQuota: boolean | undefined;
  /** Among the events of one report: how it is linked to it. */
  readonly link?: { readonly state: string; readonly source: string };
}

type Part = string | Buffer;

/** A JSON array of events. */
export function eventArray(events: readonly AnsweredEvent[]): Buffer {
  return arrayOf(events, pushEvent);
}

export function eventObject(event: AnsweredEvent): Buffer {
  const parts: Part[] = [];
  pushEvent(parts, event);
  return join(parts);
}

/** `{events, next}`. */
export function eventPage(events: readonly AnsweredEvent[], next: string | null): Buffer {
  return join(['{"events":', eventArray(events), `,"next":${JSON.stringify(next)}}`]);
}

/** The answer to `Prefer: handling=lenient`: in request order, each a created event or a problem. */
export function lenientArray(
  elements: readonly (AnsweredEvent | readonly ElementProblem[])[],
  requestId: string,
): Buffer {
  return arrayOf(elements, (parts, element) => {
    if ('id' in element) pushEvent(parts, element);
    else parts.push(JSON.stringify(elementProblem(element, requestId)));
  });
}

function arrayOf<T>(elements: readonly T[], push: (parts: Part[], element: T) => void): Buffer {
  const parts: Part[] = ['['];
  elements.forEach((element, i) => {
    if (i > 0) parts.push(',');
    push(parts, element);
  });
  parts.push(']');
  return join(parts);
}

function elementProblem(errors: readonly ElementProblem[], requestId: string): Record<string, unknown> {
  const [first] = errors;
  if (first === undefined) throw new Error('an element without problems has no problem document');
  return problemOf(first.code, first.detail, requestId, errors);
}

function pushEvent(parts: Part[], event: AnsweredEvent): void {
  const session = event.sessionId === null ? 'null' : `"${event.sessionId}"`;
  const build = event.buildId === null ? 'null' : `"${event.buildId}"`;
  const reports = event.reportIds.length === 0 ? '[]' : JSON.stringify(event.reportIds);
  const sequence = event.sequence === null ? '' : `,"sequence":${event.sequence}`;
  const quota = event.overQuota === undefined ? '' : `,"overQuota":${event.overQuota}`;
  const link = event.link === undefined ? '' : `,"link":${JSON.stringify(event.link)}`;
  parts.push(
    `{"id":"${event.id}","sessionId":${session},"buildId":${build},"eventType":${JSON.stringify(event.eventType)},` +
      `"occurredAt":"${formatMicros(event.occurredAt)}"${sequence},"payload":`,
    event.payload,
    `,"reportIds":${reports}${quota}${link}}`,
  );
}

/** One allocation for the whole answer; most of its bytes are copied, not encoded. */
export function join(parts: readonly Part[]): Buffer {
  let bytes = 0;
  for (const part of parts) bytes += typeof part === 'string' ? Buffer.byteLength(part) : part.length;
  const whole = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const part of parts) at += typeof part === 'string' ? whole.write(part, at) : part.copy(whole, at);
  return whole;
}
