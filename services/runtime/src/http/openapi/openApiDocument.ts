/** Builds the OpenAPI 3.1 document of a listener from the declarations of its operations. */
import { acceptedSchema } from '@questlog/schemas/http/operations/acceptedSchema';
import {
  type Answer,
  type Api,
  hasScope,
  type Operation,
  type Parameter,
  pathParameters,
  routeOf,
} from '@questlog/schemas/http/operations/operation';
import {
  NO_ANSWER,
  RATE_LIMIT,
  RETRY_AFTER,
  textHeader,
  UUID_TEXT,
} from '@questlog/schemas/http/operations/parts';
import { PROBLEM_TYPE, Problem } from '@questlog/schemas/http/problem';

export interface OpenApiOperation {
  readonly operationId: string;
  readonly security?: readonly object[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: object }>> };
  readonly responses: Readonly<Record<string, { readonly content?: object }>>;
}

export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, { readonly examples?: unknown[] }>> };
}

export function openApiDocument({ title, description, token, operations, schemas }: Api): OpenApiDocument {
  const paths: Record<string, Record<string, object>> = {};
  for (const [operationId, operation] of Object.entries(operations)) {
    const { method, path } = routeOf(operation);
    paths[path] = { ...paths[path], [method.toLowerCase()]: shownOperation(operationId, operation) };
  }
  return withNamedSchemas(schemas, {
    openapi: '3.1.0',
    info: { title, version: '1', description, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: '/', description: 'The listener that returns this document.' }],
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: token } },
      headers: usedHeaders(paths),
    },
  });
}

function shownOperation(operationId: string, operation: Operation): object {
  const { access, summary, body, bodyMode, bodyType = 'application/json' } = operation;
  const scope = hasScope(access) ? `Requires the scope \`${access}\`.` : undefined;
  const description = [scope, operation.description].filter((text) => text !== undefined).join(' ');
  const parameters = parametersOf(operation);
  const schema = operation.shownBody ?? (bodyMode === 'exact' ? body : body && acceptedSchema(body));
  return {
    ...{ operationId, summary },
    ...(description !== '' && { description }),
    ...(access === 'anyone' && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(schema && { requestBody: { required: true, content: { [bodyType]: { schema } } } }),
    responses: Object.fromEntries(
      Object.entries({ ...commonResponses(operation), ...operation.responses }).map(([status, response]) => [
        status,
        shownResponse(operation, Number(status), response),
      ]),
    ),
  };
}

function parametersOf({ route, parameters = [] }: Operation): readonly Parameter[] {
  const ids = pathParameters(route).filter((id) => !parameters.some(({ name }) => name === id));
  return [
    ...ids.map((name) => ({ name, in: 'path' as const, required: true, schema: UUID_TEXT })),
    ...parameters,
  ];
}

const BAD_EXPECTATION = { 417: 'The `Expect` header is not `100-continue`.' };

/**
 * Returns the common responses of all operations with the same `access`. If the operation has a body, adds the common responses
 * of all operations with a body.
 */
function commonResponses({ access, body }: Operation): Operation['responses'] {
  if (access === undefined) return { ...OPERATOR_RESPONSES, ...(body && OPERATOR_BODY_RESPONSES) };
  const bodyResponses = body && GAME_BODY_RESPONSES;
  if (access === 'anyone') return { ...BAD_EXPECTATION, ...bodyResponses };
  return { ...GAME_RESPONSES, ...(access !== 'read' && WRITE_RESPONSES), ...bodyResponses };
}

const OPERATOR_RESPONSES = {
  401: 'The admin token is missing or wrong.',
  429: 'This address sent too many requests without the admin token.',
  503: NO_ANSWER,
  ...BAD_EXPECTATION,
};
const UNSUPPORTED = 'The media type or content coding is not supported.';
const OPERATOR_BODY_RESPONSES = {
  400: 'The body is not valid. The problem lists every invalid or unknown field.',
  408: 'The body did not arrive in time.',
  413: 'The body is too large.',
  415: UNSUPPORTED,
};
const GAME_RESPONSES = {
  401: 'The access token is missing or not valid.',
  403: 'The access token lacks the scope.',
  429: 'This address sent too many requests without a valid token.',
  503: NO_ANSWER,
  ...BAD_EXPECTATION,
};
const WRITE_RESPONSES: Operation['responses'] = {
  403: 'The access token lacks the scope or is restricted to other builds (`build_not_allowed`), or the project or its tenant is suspended.',
  429: {
    ...problem('The project or its tenant exceeds a rate limit. Nothing was stored.'),
    headers: RATE_LIMIT,
  },
};
const GAME_BODY_RESPONSES = {
  400: 'The body is not valid. The problem lists every invalid field.',
  408: 'The body did not arrive in time, or was dropped because other requests were waiting.',
  415: UNSUPPORTED,
};

function problem(description: string): Answer {
  return { description, schema: Problem, type: PROBLEM_TYPE, headers: {} };
}

function shownResponse(
  { access, parameters = [] }: Operation,
  status: number,
  response: Answer | string,
): object {
  const { description, schema, type, headers } = typeof response === 'string' ? problem(response) : response;
  const accepts = (header: string) => parameters.some(({ name }) => name === header);
  const common = [
    'X-Request-Id',
    // The 503 of `/readyz` is not a problem document and has no `Retry-After`.
    ...((status === 429 || status === 503) && type === PROBLEM_TYPE ? ['Retry-After'] : []),
    ...(status < 300 && accepts('Prefer') ? ['Preference-Applied', 'Questlog-Ignored-Fields'] : []),
    ...(status === 401 || (status === 403 && hasScope(access)) ? ['WWW-Authenticate'] : []),
    ...(status === 415 && accepts('Content-Encoding') ? ['Accept-Encoding'] : []),
  ];
  const references = common.map((name) => [name, { $ref: `#/components/headers/${name}` }]);
  return {
    description,
    ...(schema !== undefined && { content: { [type]: { schema } } }),
    headers: { ...Object.fromEntries(references), ...headers },
  };
}

function usedHeaders(paths: object): object {
  const text = JSON.stringify(paths);
  return Object.fromEntries(
    Object.entries(HEADERS).filter(([name]) => text.includes(`"#/components/headers/${name}"`)),
  );
}

const HEADERS = {
  ...textHeader(
    'X-Request-Id',
    'Id of the request, which is also in the log of the server and in `instance` of a problem.',
  ),
  ...RETRY_AFTER,
  ...textHeader('Preference-Applied', 'The applied preference of the header `Prefer` (RFC 7240).'),
  ...textHeader('WWW-Authenticate', 'The required authentication (RFC 6750).'),
  ...textHeader(
    'Accept-Encoding',
    'The supported content codings, if the request has another content coding.',
  ),
  ...textHeader(
    'Questlog-Ignored-Fields',
    'JSON pointers of the first ten fields of the request that the contract does not define.',
  ),
};

interface Schema {
  readonly type?: unknown;
  readonly properties?: object;
  readonly additionalProperties?: unknown;
}

/** Adds `additionalProperties: true` to objects without declared properties, because they can have any properties. */
function withAnyProperties(value: Schema | null): Schema | null {
  if (value?.type !== 'object' || value.additionalProperties !== undefined) return value;
  return Object.keys(value.properties ?? {}).length > 0 ? value : { ...value, additionalProperties: true };
}

/** Moves each exported schema to `components`. The name in `components` is the name of the export without `Output`. */
function withNamedSchemas(modules: Api['schemas'], document: object): OpenApiDocument {
  const names = namesOf(modules);
  const schemas: Record<string, unknown> = {};
  const inside = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(replaced);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, replaced(item)]));
  };
  const replaced = (value: unknown): unknown => {
    const name = isObjectSchema(value) ? names.get(JSON.stringify(value)) : undefined;
    if (name === undefined) return inside(value);
    schemas[name] ??= inside(value);
    return { $ref: `#/components/schemas/${name}` };
  };
  const { components, ...rest } = inside(JSON.parse(textOf(document))) as OpenApiDocument;
  return { ...rest, components: { ...components, schemas } } as OpenApiDocument;
}

/**
 * Maps the JSON text of each exported schema to the name of the schema. The schema that also accepts null has a different text,
 * but is mapped to the same name.
 */
function namesOf(modules: Api['schemas']): ReadonlyMap<string, string> {
  const named = modules
    .flatMap((module) => Object.entries(module))
    .filter(([, value]) => isObjectSchema(value));
  return new Map(
    named.flatMap(([id, schema]) => {
      const name = id.replace(/Output$/, '');
      return [schema, acceptedSchema(Object(schema))].map((each) => [textOf(each), name] as const);
    }),
  );
}

function isObjectSchema(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'properties' in value;
}

function textOf(value: unknown): string {
  return JSON.stringify(value, (_, part) => withAnyProperties(part));
}
