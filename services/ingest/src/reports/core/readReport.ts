/** Turns a scanned body into a bug report, or into the list of all its faults. Pure. */
import { BATCH_CAP } from '@questlog/schemas/http/event';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import {
  type AttachmentInput,
  REPORT_LIMITS,
  ReportFields,
  ReportInput,
} from '@questlog/schemas/http/report';
import { MAX_UPLOAD_BYTES_PER_REPORT } from '@questlog/schemas/http/upload';
import type { ReportWindowMs } from '@questlog/schemas/topics/directoryEntry';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { MAX_NAMED_EVENTS } from '@questlog/schemas/topics/reportLinks';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Compile } from 'typebox/compile';
import { type SentTime, sentTime } from '../../core/clockSkew.ts';
import {
  checkedFields,
  isObject,
  loneSurrogates,
  objectOf,
  problem,
  sizeProblems,
  structureProblems,
  timestampIn,
  uuidProblem,
} from '../../core/fieldProblems.ts';
import { type ObjectScan, type ScannedObject, type Span, scanObject } from '../../core/scanObject.ts';
import { type UnknownField, unknownFieldProblems, unknownOf } from '../../core/unknownFields.ts';
import { type Draft, readElements, timesOf } from '../../events/core/envelope.ts';
import { scanArray } from '../../events/core/scanBody.ts';
import type { ScannedElement } from '../../events/core/scanElement.ts';
import {
  FILE_NAME_RULE,
  isFileName,
  isMediaType,
  MEDIA_TYPE_RULE,
} from '../../uploads/core/uploadRequest.ts';

export interface ReportDraft {
  /** Null: the server makes it. */
  readonly id: string | null;
  /** Where the body names it. */
  readonly idMember: Span | undefined;
  readonly sessionId: string | null;
  /** Microseconds since the epoch; null: the server's time. */
  readonly occurredAt: bigint | null;
  /** Times of the report and of its events. */
  readonly times: readonly SentTime[];
  readonly window: Partial<ReportWindowMs>;
  /** In lower case, each once. */
  readonly eventIds: readonly string[];
  /** More were named than count: those before the last `MAX_NAMED_EVENTS` are left out. */
  readonly eventIdsTruncated: boolean;
  /** In lower case; it makes a repeat, and the report's id. */
  readonly clientRequestId: string | null;
  readonly buildId: string | null;
  /** The texts of the report; null where it is a bare link. */
  readonly report: ReportFields['report'] | null;
  /** A view of the body's own bytes. */
  readonly context: Buffer | null;
  readonly attachments: readonly AttachmentInput[];
  /** JSON pointers of the first fields that no report has, or no event. */
  readonly unknown: readonly string[];
  readonly drafts: readonly Draft[];
  readonly problems: readonly ElementProblem[];
}

const validator = Compile(ReportFields);
/** A report has at least one of them. */
const NAMING_FIELDS = ['sessionId', 'events', 'eventIds', 'report'] as const;

/** @throws Rejected when the body is no JSON object at all. */
export function readReport(body: Buffer, revision: Revision, isStrict = false): ReportDraft {
  const { scanned, inline } = scanReport(body, BATCH_CAP[revision]);
  const report = objectOf(scanned);
  const fields = smallFields(report);
  const events = readElements(body, inline.elements, revision);
  const problems = [
    ...structureProblems(report),
    ...tooLarge(report, inline.count, BATCH_CAP[revision]),
    ...fields.problems,
    ...events.problems.map(insideEvents),
  ];
  const { value } = fields;
  const unknown = [...report.unknown, ...inline.unknown.map((field) => insideEvents(field).pointer)];
  if (isStrict) problems.push(...unknownFieldProblems(unknownOf(unknown), ReportInput));
  if (NAMING_FIELDS.every((field) => isEmpty(report, inline.count, field))) {
    problems.push(problem('', 'empty_report', 'a report has a report, a sessionId, events or eventIds'));
  }
  return {
    id: canonicalUuid(value.id ?? '') ?? null,
    idMember: report.idMember,
    sessionId: canonicalUuid(value.sessionId ?? '') ?? null,
    occurredAt: fields.occurredAt,
    times: [
      ...sentTime('occurredAt', value.occurredAt, fields.occurredAt),
      ...timesOf(events.drafts, inline.elements).map(insideEvents),
    ],
    window: value.window ?? {},
    eventIds: [...new Set((value.eventIds ?? []).flatMap(uuidsOf))],
    eventIdsTruncated: fields.eventIdsTruncated,
    clientRequestId: canonicalUuid(value.clientRequestId ?? '') ?? null,
    buildId: canonicalUuid(value.buildId ?? '') ?? null,
    report: value.report ?? null,
    context: bytesOf(body, report.spans['context']),
    attachments: value.attachments ?? [],
    unknown,
    drafts: events.drafts,
    problems,
  };
}

function bytesOf(body: Buffer, span: Span | undefined): Buffer | null {
  return span === undefined ? null : body.subarray(span.start, span.end);
}

interface InlineEvents {
  /** The first of them, up to the cap. */
  elements: readonly ScannedElement[];
  /** All of them. */
  count: number;
  unknown: readonly UnknownField[];
}

/** The events are read by the scanner of ingest, so that their payloads stay byte for byte. */
function scanReport(body: Buffer, maxEvents: number): { scanned: ObjectScan; inline: InlineEvents } {
  const inline: InlineEvents = { elements: [], count: 0, unknown: [] };
  const scanned = scanObject(body, {
    ...PARSED,
    window: ['beforeMs', 'afterMs'],
    report: ['title', 'description', 'severity', 'reporterType', 'sourceChannel', 'fingerprint'],
    attachments: ['uploadId', 'attachmentType', 'fileName', 'mimeType', 'sizeBytes'],
    context: 'bytes',
    events: (json, valueAt) => {
      const isArray = json.body[valueAt] === OPEN_ARRAY;
      const found = isArray ? scanArray(json, valueAt, maxEvents) : undefined;
      const { elements = [], count = 0, unknown = [] } = found ?? {};
      Object.assign(inline, { elements, count, unknown });
      return found?.end ?? json.skipValue(valueAt);
    },
  });
  return { scanned, inline };
}

const PARSED = {
  id: 'parsed',
  clientRequestId: 'parsed',
  sessionId: 'parsed',
  buildId: 'parsed',
  occurredAt: 'parsed',
  eventIds: 'parsed',
} as const;
const OPEN_ARRAY = 0x5b;

/** A problem of an inline event: `index` is its position in `events`, the pointer goes from the body's root. */
export function insideEvents<T extends UnknownField>(problem: T): T {
  return { ...problem, pointer: `/events/${problem.index}${problem.pointer}` };
}

function tooLarge({ spans }: ScannedObject, events: number, cap: number): ElementProblem[] {
  const detail = `events takes at most ${cap} events, this one has ${events}`;
  const { start, end } = spans['context'] ?? { start: 0, end: 0 };
  return [
    ...(events > cap ? [problem('/events', 'batch_too_large', detail)] : []),
    ...sizeProblems('/context', end - start, REPORT_LIMITS.maxContextBytes),
  ];
}

/** Whatever else stands in a field is not nothing: that it is wrong is a problem of its own. */
function isEmpty(report: ScannedObject, events: number, field: (typeof NAMING_FIELDS)[number]): boolean {
  const { fields, repeated, tooDeep } = report;
  if (repeated.has(`/${field}`) || tooDeep.includes(`/${field}`)) return false;
  const value = fields[field];
  if (value === undefined || value === '') return true;
  if (field === 'sessionId' || !Array.isArray(value)) return false;
  return value.length === 0 && (field !== 'events' || events === 0);
}

/** The small fields; what is wrong in one of them leaves it out, so that the others can be judged. */
function smallFields({ fields }: ScannedObject): {
  value: ReportFields;
  occurredAt: bigint | null;
  eventIdsTruncated: boolean;
  problems: ElementProblem[];
} {
  const sentFields = omitEmptyFields(fields);
  const eventIds = sentFields['eventIds'];
  const isTooMany = Array.isArray(eventIds) && eventIds.length > MAX_NAMED_EVENTS;
  // A game whose queue outlived a connection names all events of its run in every report.
  const eventIdsTruncated = isTooMany && 'clientRequestId' in sentFields;
  const skipped = isTooMany ? eventIds.length - MAX_NAMED_EVENTS : 0;
  if (isTooMany) sentFields['eventIds'] = eventIds.slice(skipped);
  const { value, problems } = checkedFields(validator, sentFields);
  if (isTooMany && !eventIdsTruncated) {
    const detail = `eventIds takes at most ${MAX_NAMED_EVENTS} ids, this one has ${eventIds.length}`;
    problems.push(problem('/eventIds', 'batch_too_large', detail));
  }
  problems.push(...valueProblems(value, skipped));
  const occurredAt = timestampIn('occurredAt', value.occurredAt, problems);
  return { value, occurredAt, eventIdsTruncated, problems };
}

/**
 * What a schema alone does not say.
 * @param skipped so many ids stood before `eventIds`.
 */
function valueProblems(
  { id, clientRequestId, eventIds = [], report, attachments = [] }: ReportFields,
  skipped: number,
): ElementProblem[] {
  const found = eventIds.flatMap((one, i) => {
    return uuidsOf(one).length > 0 ? [] : [uuidProblem(`/eventIds/${skipped + i}`)];
  });
  if (id !== undefined && clientRequestId !== undefined) {
    found.push(
      problem('/id', 'field_invalid', 'id may not stand beside clientRequestId, which makes the id'),
    );
  }
  found.push(...loneSurrogates(report ?? {}, '/report'));
  const { maxDescriptionBytes, maxAttachments } = REPORT_LIMITS;
  const descriptionBytes = Buffer.byteLength(report?.description ?? '');
  found.push(...sizeProblems('/report/description', descriptionBytes, maxDescriptionBytes));
  if (attachments.length > maxAttachments) {
    const detail = `attachments takes at most ${maxAttachments} files, this one has ${attachments.length}`;
    found.push(problem('/attachments', 'batch_too_large', detail));
  }
  for (const [i, { fileName, mimeType = 'any/type' }] of attachments.entries()) {
    const refuse = (name: string, rule: string) =>
      found.push(problem(`/attachments/${i}/${name}`, 'field_invalid', `attachments.${i}.${name} ${rule}`));
    if (!isFileName(fileName)) refuse('fileName', FILE_NAME_RULE);
    if (!isMediaType(mimeType)) refuse('mimeType', MEDIA_TYPE_RULE);
  }
  return [...found, ...attachedBytesProblems(attachments)];
}

/** Of the sizes that are said, or of those that are stored. */
export function attachedBytesProblems(
  attachments: readonly { readonly sizeBytes?: number | null | undefined }[],
): ElementProblem[] {
  const attachedBytes = attachments.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0);
  if (attachedBytes <= MAX_UPLOAD_BYTES_PER_REPORT) return [];
  const detail = `the files of a report have at most ${MAX_UPLOAD_BYTES_PER_REPORT} bytes together, these have ${attachedBytes}`;
  return [problem('/attachments', 'field_too_large', detail)];
}

/** `null` in an optional field is as if it were omitted, and so is an empty string, which game plugins send. */
function omitEmptyFields(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const sentFields = omitEmpty(fields, []);
  for (const name of ['window', 'report'] as const) {
    if (isObject(sentFields[name])) sentFields[name] = omitEmpty(sentFields[name], ['title']);
  }
  const { attachments } = sentFields;
  if (Array.isArray(attachments)) {
    sentFields['attachments'] = attachments.map((one: unknown) =>
      isObject(one) ? omitEmpty(one, ['fileName']) : one,
    );
  }
  return sentFields;
}

/** @param needed of these an empty string is an empty string. */
function omitEmpty(value: object, needed: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).filter(
      ([name, inner]) => inner !== null && (inner !== '' || needed.includes(name)),
    ),
  );
}

function uuidsOf(id: unknown): string[] {
  const uuid = typeof id === 'string' ? canonicalUuid(id) : undefined;
  return uuid === undefined ? [] : [uuid];
}
