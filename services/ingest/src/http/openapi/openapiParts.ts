/** The parts that the operations of the OpenAPI document share. */

export const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const json = (schema: object) => ({ 'application/json': { schema } });
/** @param shape a schema, or the name of one of the document's. */
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
  '`handling=strict` refuses unknown fields (400). Otherwise they are ignored, and `Questlog-Ignored-Fields` names the first ten.';

export const PREFER = header('Prefer', STRICT);
export const CODING = header('Content-Encoding', 'gzip, deflate, br or zstd.');

const RETRY_AFTER = { schema: { type: 'integer' }, description: 'Seconds until it fits.' };

export const COMMON_RESPONSES = {
  401: problem('No valid access token.'),
  403: problem('The access token lacks the scope.'),
  429: tooMany('a valid token'),
  417: problem('`Expect` says something other than `100-continue`.'),
  503: problem('A dependency does not answer. `Retry-After` says when to retry.'),
};

/** Of whatever writes. */
export const WRITE_RESPONSES = {
  403: problem(
    'The access token lacks the scope or is for other builds (`build_not_allowed`), or the project or its tenant is suspended.',
  ),
  429: {
    ...problem('The project or its tenant sends more than its limits allow. Nothing was stored.'),
    headers: {
      'Retry-After': RETRY_AFTER,
      ...Object.fromEntries(
        ['RateLimit', 'RateLimit-Policy'].map((name) => [
          name,
          { schema: { type: 'string' }, description: 'As draft-ietf-httpapi-ratelimit-headers-10 has it.' },
        ]),
      ),
    },
  },
};

/** The answer to an address that is rejected. */
export function tooMany(credentials: string): object {
  return {
    ...problem(`Too many requests without ${credentials} came from this address.`),
    headers: { 'Retry-After': RETRY_AFTER },
  };
}

export const MIB = 1024 * 1024;

/** Of a request with a body. */
export const BODY_TIMEOUT = {
  408: problem('The body did not come in time, or gave its place up to others that waited.'),
};

export const NOT_THERE = { 404: problem('The id does not exist in the project.') };

const LIMIT = query('limit', { type: 'integer', minimum: 1, maximum: 1000, default: 100 });
const CURSOR = query('cursor', { type: 'string', format: 'cursor' });
export const PAGE = [LIMIT, CURSOR];
/** Of events, which may be large. */
export const EVENT_PAGE = [
  {
    ...LIMIT,
    description:
      'Where so many are too large for one answer, a page has the first 100: there are more as long as `next` is not null.',
  },
  CURSOR,
];

/** A filter of a list, told in a sentence. */
export const filter = (name: string, description: string, schema: object) => ({
  ...query(name, schema),
  description,
});

export const UUID_TEXT = { type: 'string', format: 'uuid' };
const V7 = '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}';
/** Bare, or quoted; an empty header is none. */
export const UUID_V7 = { type: 'string', pattern: `^(${V7}|"${V7}")?$` };
/** Formats of our own: `Timestamp` tells this one. */
export const TIME = { type: 'string', format: 'iso-8601', examples: ['2026-11-21T18:30:00Z'] };

export const BAD_PAGE = { 400: problem('The limit or the cursor is not valid.') };
export const BAD_LIST = { 400: problem('A parameter is not valid: the detail names it and what it may be.') };

export function read(
  summary: string,
  ok: object,
  { parameters = [], rejections = {} }: { parameters?: object[]; rejections?: object } = {},
): object {
  return {
    summary,
    description: 'Scope `read`.',
    parameters,
    responses: { 200: ok, ...rejections, ...COMMON_RESPONSES },
  };
}

/** @param input a schema of the body, or the name of one of the document's. */
export function write(
  texts: { summary: string; description: string; parameters: object[] },
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

/** Header of an answer to a request with a time that is probably wrong. */
export const CLOCK_SKEW = {
  'Questlog-Clock-Skew': {
    schema: { type: 'string', examples: ['86400;code=time_ahead;times=2'] },
    description:
      'A time was stored as sent, but is over 5 minutes ahead of the server (`time_ahead`), before 2015 (`time_before_2015`) or ' +
      'without a zone (`time_without_zone`): the largest skew in seconds (below 0: behind the server), its code, and the ' +
      'number of such times. Answers 200 and 207 can have this header, too.',
  },
};
