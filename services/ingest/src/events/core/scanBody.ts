/** Scans the body of an events request for JSON errors and for the fields of each element. Pure. */

import { notJson } from '@questlog/runtime/http/core/fieldProblems';
import { FAILED, JsonBytes } from '@questlog/runtime/http/core/scanValue';
import type { UnknownField } from '@questlog/runtime/http/core/unknownFields';
import { Rejected } from '@questlog/runtime/http/rejected';
import { BATCH_CAP } from '@questlog/schemas/http/event';
import { type ElementProblem, statusOf } from '@questlog/schemas/http/problem';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { type ScannedElement, scanElement, UnknownNames } from './scanElement.ts';

export type ScanResult =
  | {
      readonly ok: true;
      readonly isArray: boolean;
      readonly elements: readonly ScannedElement[];
      /** Number of elements in the body, even if `elements` contains only the first `maxElements` elements. */
      readonly count: number;
      readonly unknown: readonly UnknownField[];
    }
  /** JSON syntax error. `detail` is a fixed text, which contains no part of the body. */
  | { readonly ok: false; readonly reason: 'syntax'; readonly offset: number; readonly detail: string };

/** Scans a request body. Accepts the same JSON as `JSON.parse`, and does not check the types of values. */
export function scanBody(body: Buffer, options: { maxElements: number }): ScanResult {
  const json = new JsonBytes(body);
  const start = json.skipSpace(0);
  const isArray = json.at(start) === OPEN_ARRAY;
  const result = isArray ? scanArray(json, start, options.maxElements) : scanSingle(json, start);
  if (result.end !== FAILED) {
    const end = json.skipSpace(result.end);
    const { elements, count, unknown } = result;
    if (end === json.end) return { ok: true, isArray, elements, count, unknown };
    json.fail(end, 'there is content after the document');
  }
  return { ok: false, reason: 'syntax', offset: json.failedAt, detail: json.detail };
}

export interface ScannedArray {
  readonly elements: readonly ScannedElement[];
  readonly count: number;
  readonly unknown: readonly UnknownField[];
  readonly end: number;
}

export function scanArray(json: JsonBytes, i: number, maxElements: number): ScannedArray {
  const elements: ScannedElement[] = [];
  const unknown = new UnknownNames();
  const resultAt = (end: number): ScannedArray => {
    return { elements, count, unknown: unknown.fields(), end };
  };
  let count = 0;
  i = json.skipSpace(i + 1);
  if (json.at(i) === CLOSE_ARRAY) return resultAt(i + 1);
  for (;;) {
    if (count < maxElements) {
      unknown.element = count;
      const element = scanElement(json, unknown, i);
      elements.push(element);
      i = element.end;
    } else {
      i = json.skipValue(i);
    }
    if (i === FAILED) break;
    count++;
    i = json.skipSpace(i);
    const byte = json.at(i);
    if (byte === CLOSE_ARRAY) return resultAt(i + 1);
    if (byte !== COMMA) {
      json.fail(i, 'a comma or the end of the array was expected');
      break;
    }
    i = json.skipSpace(i + 1);
  }
  return resultAt(FAILED);
}

function scanSingle(json: JsonBytes, i: number): ScannedArray {
  const unknown = new UnknownNames();
  const element = scanElement(json, unknown, i);
  const elements = [element];
  return { elements, count: 1, unknown: unknown.fields(), end: element.end };
}

const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;

/** @throws Rejected if the body is not valid JSON, or if the number of elements is not allowed */
export function scanRequest(body: Buffer, revision: Revision): Pick<ScannedArray, 'elements' | 'unknown'> {
  const cap = BATCH_CAP[revision];
  const scanned = scanBody(body, { maxElements: cap });
  if (!scanned.ok) throw notJson(scanned);
  if (scanned.count > cap) {
    throw new Rejected(
      'batch_too_large',
      `an array may have at most ${cap} events; this one has ${scanned.count}`,
    );
  }
  if (scanned.isArray && scanned.count === 0)
    throw new Rejected('empty_batch', 'an array must have at least one event');
  const [only] = scanned.elements;
  if (!scanned.isArray && only !== undefined && only.kind !== 'object') {
    throw new Rejected(
      'invalid_body',
      `the body must be an object or an array of objects, not a value of type ${only.kind}`,
    );
  }
  return scanned;
}

/** Combines the problems of a request into one error. Its HTTP status is the first of 400, 413, 403, and 404 that applies. */
export function elementsRejection(problems: readonly ElementProblem[]): Rejected {
  const statuses = new Set(problems.map(({ code }) => statusOf(code)));
  const elements = new Set(problems.map(({ index }) => index)).size;
  const [first] = problems;
  const detail = `${elements} of the elements ${elements === 1 ? 'is' : 'are'} invalid; nothing was stored. First: element ${first?.index}, ${first?.detail}`;
  const errors = problems;
  if (statuses.has(400)) return new Rejected('invalid_elements', detail, { errors });
  if (statuses.has(413)) return new Rejected('event_too_large', detail, { errors });
  const forbidden = problems.find(({ code }) => statusOf(code) === 403);
  if (forbidden !== undefined) return new Rejected(forbidden.code, detail, { errors });
  return new Rejected('unknown_session', detail, { errors });
}
