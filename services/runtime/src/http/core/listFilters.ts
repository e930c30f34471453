/** Parses the filters of list queries. An omitted filter has no effect. */
import { EXAMPLE_SESSION, EXAMPLE_TIME } from '@questlog/schemas/http/fields';
import { parseOccurredAt } from '@questlog/schemas/isoTime';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Rejected } from '../rejected.ts';

type Text = string | undefined;

/** @throws Rejected with the name of the parameter if the text is not a UUID. */
export function uuidFilter(name: string, text: Text): string | undefined {
  if (text === undefined) return undefined;
  return canonicalUuid(text) ?? reject(name, `a UUID, such as ${EXAMPLE_SESSION}`);
}

/** Returns the time in microseconds since the epoch, as text for a 64-bit integer parameter of ClickHouse. */
export function timeFilter(name: string, text: Text): string | undefined {
  if (text === undefined) return undefined;
  const parsed = parseOccurredAt(text);
  // The error message mentions `%2B`, because a client that sends an unencoded `+` in a URL gets a space instead.
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
