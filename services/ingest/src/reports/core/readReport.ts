/** Parses the body of a bug report request, and collects all problems in the body. Pure. */

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
} from '@questlog/runtime/http/core/fieldProblems';
import {
  type ObjectScan,
  type ScannedObject,
  type Span,
  scanObject,
} from '@questlog/runtime/http/core/scanObject';
import {
  type UnknownField,
  unknownFieldProblems,
  unknownOf,
} from '@questlog/runtime/http/core/unknownFields';
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
  readonly id: string | null;
  readonly idMember: Span | undefined;
  readonly sessionId: string | null;
  /** Time of the bug report in microseconds since the epoch. Null if the request contains no time. */
  readonly occurredAt: bigint | null;
  readonly times: readonly SentTime[];
  readonly window: Partial<ReportWindowMs>;
  readonly eventIds: readonly string[];
  /** True if the request contains too many event ids. Only the last `MAX_NAMED_EVENTS` ids are then used. */
  readonly eventIdsTruncated: boolean;
  /** Id that the client chooses for a report request and repeats in a retry. The report id is derived from this id. */
  readonly clientRequestId: string | null;
  readonly buildId: string | null;
  readonly report: ReportFields['report'] | null;
  readonly context: Buffer | null;
  readonly attachments: readonly AttachmentInput[];
  /** JSON pointers of the first unknown fields in the body. */
  readonly unknown: readonly string[];
  readonly drafts: readonly Draft[];
  readonly problems: readonly ElementProblem[];
}

const validator = Compile(ReportFields);
/** Fields of a bug report request. At least one of these fields must be present and not empty. */
const NAMING_FIELDS = ['sessionId', 'events', 'eventIds', 'report'] as const;

/** Parses a report. Problems of single fields are part of the result. @throws Rejected if the body is not a JSON object */
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
    problems.push(
      problem('', 'empty_report', 'at least one of report, sessionId, events, or eventIds is required'),
    );
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
  elements: readonly ScannedElement[];
  count: number;
  unknown: readonly UnknownField[];
}

/** Scans the body of a report. The scanner for events scans the inline events, and keeps the bytes of their payloads. */
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

export function insideEvents<T extends UnknownField>(problem: T): T {
  return { ...problem, pointer: `/events/${problem.index}${problem.pointer}` };
}

function tooLarge({ spans }: ScannedObject, events: number, cap: number): ElementProblem[] {
  const detail = `events may have at most ${cap} elements, but has ${events}`;
  const { start, end } = spans['context'] ?? { start: 0, end: 0 };
  return [
    ...(events > cap ? [problem('/events', 'batch_too_large', detail)] : []),
    ...sizeProblems('/context', end - start, REPORT_LIMITS.maxContextBytes),
  ];
}

/** True if the field is absent or empty. False if the field has a wrong type, because another check finds the wrong type. */
function isEmpty(report: ScannedObject, events: number, field: (typeof NAMING_FIELDS)[number]): boolean {
  const { fields, repeated, tooDeep } = report;
  if (repeated.has(`/${field}`) || tooDeep.includes(`/${field}`)) return false;
  const value = fields[field];
  if (value === undefined || value === '') return true;
  if (field === 'sessionId' || !Array.isArray(value)) return false;
  return value.length === 0 && (field !== 'events' || events === 0);
}

/** Checks all fields except the inline events. Leaves out invalid fields, and continues with the other fields. */
function smallFields({ fields }: ScannedObject): {
  value: ReportFields;
  occurredAt: bigint | null;
  eventIdsTruncated: boolean;
  problems: ElementProblem[];
} {
  const sentFields = omitEmptyFields(fields);
  const eventIds = sentFields['eventIds'];
  const isTooMany = Array.isArray(eventIds) && eventIds.length > MAX_NAMED_EVENTS;
  // In a report with a `clientRequestId`, too many event ids are not an error, because some games send all event ids of a
  // session after a lost connection.
  const eventIdsTruncated = isTooMany && 'clientRequestId' in sentFields;
  const skipped = isTooMany ? eventIds.length - MAX_NAMED_EVENTS : 0;
  if (isTooMany) sentFields['eventIds'] = eventIds.slice(skipped);
  const { value, problems } = checkedFields(validator, sentFields);
  if (isTooMany && !eventIdsTruncated) {
    const detail = `eventIds may have at most ${MAX_NAMED_EVENTS} ids, but has ${eventIds.length}`;
    problems.push(problem('/eventIds', 'batch_too_large', detail));
  }
  problems.push(...valueProblems(value, skipped));
  const occurredAt = timestampIn('occurredAt', value.occurredAt, problems);
  return { value, occurredAt, eventIdsTruncated, problems };
}

function valueProblems(
  { id, clientRequestId, eventIds = [], report, attachments = [] }: ReportFields,
  skipped: number,
): ElementProblem[] {
  const problems = eventIds.flatMap((one, i) => {
    return uuidsOf(one).length > 0 ? [] : [uuidProblem(`/eventIds/${skipped + i}`)];
  });
  if (id !== undefined && clientRequestId !== undefined) {
    problems.push(
      problem(
        '/id',
        'field_invalid',
        'id and clientRequestId must not both be present, because clientRequestId determines the id',
      ),
    );
  }
  problems.push(...loneSurrogates(report ?? {}, '/report'));
  const { maxDescriptionBytes, maxAttachments } = REPORT_LIMITS;
  const descriptionBytes = Buffer.byteLength(report?.description ?? '');
  problems.push(...sizeProblems('/report/description', descriptionBytes, maxDescriptionBytes));
  if (attachments.length > maxAttachments) {
    const detail = `attachments may have at most ${maxAttachments} files, but has ${attachments.length}`;
    problems.push(problem('/attachments', 'batch_too_large', detail));
  }
  for (const [i, { fileName, mimeType = 'any/type' }] of attachments.entries()) {
    const addProblem = (name: string, rule: string) =>
      problems.push(
        problem(`/attachments/${i}/${name}`, 'field_invalid', `attachments.${i}.${name} ${rule}`),
      );
    if (!isFileName(fileName)) addProblem('fileName', FILE_NAME_RULE);
    if (!isMediaType(mimeType)) addProblem('mimeType', MEDIA_TYPE_RULE);
  }
  return [...problems, ...attachedBytesProblems(attachments)];
}

export function attachedBytesProblems(
  attachments: readonly { readonly sizeBytes?: number | null | undefined }[],
): ElementProblem[] {
  const attachedBytes = attachments.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0);
  if (attachedBytes <= MAX_UPLOAD_BYTES_PER_REPORT) return [];
  const detail = `the files of a report may have at most ${MAX_UPLOAD_BYTES_PER_REPORT} bytes in total, but have ${attachedBytes}`;
  return [problem('/attachments', 'field_too_large', detail)];
}

/** Removes optional fields that are `null` or an empty string, because game plugins send these values for absent fields. */
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
