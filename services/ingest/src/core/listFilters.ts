/** Parses filters of list queries. An omitted filter has no effect. Pure. */
import { EXAMPLE_SESSION, EXAMPLE_TIME } from '@questlog/schemas/http/fields';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Rejected } from '../rejected.ts';
import { parseOccurredAt } from './occurredAt.ts';

type Text = string | undefined;

/** Returns the UUID in lower case. @throws Rejected naming the parameter, like all filters */
export function uuidFilter(name: string, text: Text): string | undefined {
  if (text === undefined) return undefined;
  return canonicalUuid(text) ?? reject(name, `a UUID, such as ${EXAMPLE_SESSION}`);
}

/** Returns microseconds since the epoch, as text for a 64-bit integer of ClickHouse. */
export function timeFilter(name: string, text: Text): string | undefined {
  if (text === undefined) return undefined;
  const parsed = parseOccurredAt(text);
  // Query decoding turns an offset's plus sign into a space.
  return parsed.ok
    ? String(parsed.micros)
    : reject(
        name,
        `an ISO 8601 timestamp in the years 1900 to 2299, such as ${EXAMPLE_TIME}; write a plus sign as %2B`,
      );
}

export function choiceFilter(name: string, text: Text, choices: readonly string[]): string | undefined {
  if (text === undefined || choices.includes(text)) return text;
  return reject(name, `one of ${choices.join(', ')}`);
}

export function textFilter(name: string, text: Text, maxLength: number): string | undefined {
  if (text === undefined) return undefined;
  const length = [...text].length;
  return length >= 1 && length <= maxLength ? text : reject(name, `1 to ${maxLength} characters`);
}

/** Returns the conditions of the filters that are set. */
export function whereClause<Name extends string>(
  filters: Readonly<Record<Name, Text>>,
  conditions: Readonly<Record<Name, string>>,
): string {
  const isGiven = (name: string): boolean => Reflect.get(filters, name) !== undefined;
  return Object.entries<string>(conditions)
    .flatMap(([name, condition]) => (isGiven(name) ? [`AND ${condition}`] : []))
    .join(' ');
}

function reject(name: string, expected: string): never {
  throw new Rejected('invalid_request', `${name}: ${expected}`);
}
