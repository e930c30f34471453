/** Parameters, headers, and schemas that the declarations of several operations share. */
import Type, { type TSchema } from 'typebox';
import type { Answer, Parameter } from './operation.ts';

export const MIB = 1024 * 1024;
const JSON_TYPE = 'application/json';

export function answer<S extends TSchema>(
  description: string,
  schema: S,
  { headers = {}, type = JSON_TYPE }: { headers?: object; type?: string } = {},
): Answer<S> {
  return { description, schema, type, headers };
}

export function emptyAnswer(description: string): Answer<undefined> {
  return { description, schema: undefined, type: '', headers: {} };
}

export const header = (
  name: string,
  description: string,
  schema: object = { type: 'string' },
): Parameter => ({ name, in: 'header', description, schema });

export const query = (name: string, schema: object, description?: string): Parameter => ({
  ...{ name, in: 'query', schema },
  ...(description !== undefined && { description }),
});

export const HEALTHY = Type.Object({ status: Type.Literal('ok') });
export const ANY_OBJECT = Type.Object({});
export const TEXT = Type.String();
export const BYTES = Type.String({ format: 'binary' });

const STRICT =
  '`handling=strict` rejects unknown fields (400). Otherwise unknown fields are ignored, and `Questlog-Ignored-Fields` names the first ten.';
export const PREFER = header('Prefer', STRICT);
export const PREFER_LENIENT = header(
  'Prefer',
  `\`handling=lenient\` stores the valid elements of a batch and answers 207. ${STRICT}`,
);
export const CODING = header('Content-Encoding', 'gzip, deflate, br or zstd.');

const LIMIT_SCHEMA = { type: 'integer', minimum: 1, maximum: 1000, default: 100 };
const CURSOR = query('cursor', { type: 'string', format: 'cursor' });
export const PAGE = [query('limit', LIMIT_SCHEMA), CURSOR];
export const EVENT_PAGE = [
  query(
    'limit',
    LIMIT_SCHEMA,
    'Maximum number of events on the page. If the events are too large for one response, a page has only the first 100. There are more events if `next` is not null.',
  ),
  CURSOR,
];

export const ANY_TEXT = { type: 'string' };
export const UUID_TEXT = { type: 'string', format: 'uuid' };
const V7 = '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}';
/** Schema of a header that contains a UUIDv7 with or without quotes. An empty header is treated as absent. */
export const UUID_V7 = { type: 'string', pattern: `^(${V7}|"${V7}")?$` };
export const TIME = { type: 'string', format: 'iso-8601', examples: ['2026-11-21T18:30:00Z'] };

export const BAD_PAGE = 'The limit or the cursor is not valid.';
export const BAD_LIST = 'A parameter is not valid. The detail names the parameter and its valid values.';
export const NOT_IN_PROJECT = 'The id does not exist in the project.';
export const NOT_THERE = 'The id does not exist.';
export const NO_ANSWER = 'A dependency does not answer. Retry after the time in `Retry-After`.';

export const textHeader = (name: string, description: string, schema: object = { type: 'string' }) => ({
  [name]: { schema, description },
});

/** Header of a response that repeats the response to an earlier request. */
export const REPLAYED = textHeader('Idempotency-Replayed', 'The request was already processed earlier.', {
  const: 'true',
});

export const RETRY_AFTER = textHeader('Retry-After', 'Seconds until the request can be retried.', {
  type: 'integer',
});

/** Headers of a response that reports an exceeded rate limit. The header `Retry-After` is declared separately. */
export const RATE_LIMIT = {
  ...textHeader('RateLimit', 'See draft-ietf-httpapi-ratelimit-headers-11.'),
  ...textHeader('RateLimit-Policy', 'See draft-ietf-httpapi-ratelimit-headers-11.'),
};

export const CLOCK_SKEW = textHeader(
  'Questlog-Clock-Skew',
  'A time was stored as sent, although it is more than 5 minutes ahead of the server (`time_ahead`), before 2015 (`time_before_2015`), or ' +
    'without a time zone (`time_without_zone`). The header has the largest skew in seconds (negative if behind the server), its code, and the ' +
    'number of such times.',
  { type: 'string', examples: ['86400;code=time_ahead;times=2'] },
);
