/** The body as a whole: is it JSON, an object or an array, within the caps; and which status its problems add up to. Pure. */
import { BATCH_CAP } from '@questlog/schemas/http/event';
import { type ElementProblem, statusOf } from '@questlog/schemas/http/problem';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { type ScannedElement, scanBody } from '../events/core/scanBody.ts';
import { Rejected } from '../rejected.ts';

/** @throws Rejected when no element can be judged on its own. */
export function scanRequest(body: Buffer, revision: Revision): readonly ScannedElement[] {
  const cap = BATCH_CAP[revision];
  const scanned = scanBody(body, { maxElements: cap });
  if (!scanned.ok) {
    throw new Rejected('invalid_json', `at byte ${scanned.offset}: ${scanned.detail}`);
  }
  if (scanned.count > cap) {
    throw new Rejected(
      'batch_too_large',
      `an array takes at most ${cap} events, this one has ${scanned.count}`,
    );
  }
  if (scanned.isArray && scanned.count === 0)
    throw new Rejected('empty_batch', 'an array takes at least one event');
  const [only] = scanned.elements;
  if (!scanned.isArray && only !== undefined && only.kind !== 'object') {
    throw new Rejected(
      'invalid_body',
      `the body is an object or an array of objects, not a value of type ${only.kind}`,
    );
  }
  return scanned.elements;
}

/** 400 wins over 413, which wins over 404; every bad element is named whatever the status. */
export function verdictOn(problems: readonly ElementProblem[]): Rejected {
  const statuses = new Set(problems.map(({ code }) => statusOf(code)));
  const elements = new Set(problems.map(({ index }) => index)).size;
  const [first] = problems;
  const detail = `${elements} of the elements ${elements === 1 ? 'is' : 'are'} not acceptable; nothing was stored. First: element ${first?.index}, ${first?.detail}`;
  const errors = problems;
  if (statuses.has(400)) return new Rejected('invalid_elements', detail, { errors });
  if (statuses.has(413)) return new Rejected('event_too_large', detail, { errors });
  return new Rejected('unknown_session', detail, { errors });
}
