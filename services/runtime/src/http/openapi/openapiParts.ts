/** Parts that several OpenAPI operations use. */

export const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const json = (schema: object) => ({ 'application/json': { schema } });
export const answer = (description: string, shape: object | string) => ({
  description,
  content: json(typeof shape === 'string' ? ref(shape) : shape),
});
export const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: ref('Problem') } },
});
export const id = { name: 'id', in: 'path', required: true, schema: { type: 'string', format: 'uuid' } };
export const header = (name: string, description: string, schema: object = { type: 'string' }) => ({
  name,
  in: 'header',
  description,
  schema,
});
export const query = (name: string, schema: object) => ({ name, in: 'query', schema });

export const STRICT =
  '`handling=strict` rejects unknown fields (400). Otherwise unknown fields are ignored, and `Questlog-Ignored-Fields` names the first ten.';

export const PREFER = header('Prefer', STRICT);
export const CODING = header('Content-Encoding', 'gzip, deflate, br or zstd.');

export const COMMON_RESPONSES = {
  401: problem('The access token is missing or not valid.'),
  403: problem('The access token lacks the scope.'),
  429: tooMany('a valid token'),
  417: problem('The `Expect` header is not `100-continue`.'),
  503: problem('A dependency does not answer. Retry after the time in `Retry-After`.'),
};

export const WRITE_RESPONSES = {
  403: problem(
    'The access token lacks the scope or is restricted to other builds (`build_not_allowed`), or the project or its tenant is suspended.',
  ),
  429: {
    ...problem('The project or its tenant exceeds a rate limit. Nothing was stored.'),
    headers: Object.fromEntries(
      ['RateLimit', 'RateLimit-Policy'].map((name) => [
        name,
        { schema: { type: 'string' }, description: 'See draft-ietf-httpapi-ratelimit-headers-11.' },
      ]),
    ),
  },
};

export function tooMany(credentials: string): object {
  return problem(`This address sent too many requests without ${credentials}.`);
}

export const MIB = 1024 * 1024;

export const BODY_TIMEOUT = {
  408: problem('The body did not arrive in time, or was dropped because other requests were waiting.'),
};

export const NOT_THERE = { 404: problem('The id does not exist in the project.') };

const LIMIT = query('limit', { type: 'integer', minimum: 1, maximum: 1000, default: 100 });
const CURSOR = query('cursor', { type: 'string', format: 'cursor' });
export const PAGE = [LIMIT, CURSOR];
export const EVENT_PAGE = [
  {
    ...LIMIT,
    description:
      'Maximum number of events on the page. If the events are too large for one response, a page has only the first 100. There are more events if `next` is not null.',
  },
  CURSOR,
];

export const filter = (name: string, description: string, schema: object) => ({
  ...query(name, schema),
  description,
});

export const UUID_TEXT = { type: 'string', format: 'uuid' };
const V7 = '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}';
/** Schema of a header that contains a UUIDv7 with or without quotes. An empty header is treated as absent. */
export const UUID_V7 = { type: 'string', pattern: `^(${V7}|"${V7}")?$` };
export const TIME = { type: 'string', format: 'iso-8601', examples: ['2026-11-21T18:30:00Z'] };

export const BAD_PAGE = { 400: problem('The limit or the cursor is not valid.') };
export const BAD_LIST = {
  400: problem('A parameter is not valid. The detail names the parameter and its valid values.'),
};

export function read(
  operationId: string,
  summary: string,
  ok: object,
  { parameters = [], rejections = {} }: { parameters?: object[]; rejections?: object } = {},
): object {
  return {
    operationId,
    summary,
    description: 'Requires the scope `read`.',
    parameters,
    responses: { 200: ok, ...rejections, ...COMMON_RESPONSES },
  };
}

export function write(
  texts: { operationId: string; summary: string; description: string; parameters: object[] },
  input: object | string,
  responses: object,
): object {
  const content = json(typeof input === 'string' ? ref(input) : input);
  return {
    ...texts,
    requestBody: { required: true, content },
    responses: { ...COMMON_RESPONSES, ...WRITE_RESPONSES, ...BODY_TIMEOUT, ...responses },
  };
}

/** Header of a response that repeats the response to an earlier request. */
export const REPLAYED = {
  'Idempotency-Replayed': {
    schema: { const: 'true' },
    description: 'The request was already processed earlier.',
  },
};

export const CLOCK_SKEW = {
  'Questlog-Clock-Skew': {
    schema: { type: 'string', examples: ['86400;code=time_ahead;times=2'] },
    description:
      'A time was stored as sent, although it is more than 5 minutes ahead of the server (`time_ahead`), before 2015 (`time_before_2015`), or ' +
      'without a time zone (`time_without_zone`). The header has the largest skew in seconds (negative if behind the server), its code, and the ' +
      'number of such times. Responses 200 and 207 can have this header, too.',
  },
};
