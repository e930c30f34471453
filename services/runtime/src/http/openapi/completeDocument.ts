/** Adds the server, the license, and response headers to an OpenAPI document. Replaces copies of named schemas by references. */

interface Operation {
  readonly parameters?: readonly { readonly name: string }[];
  readonly responses: Readonly<Record<string, Response>>;
}

interface Response {
  readonly content?: object;
  headers?: object;
}

interface Schema {
  readonly type?: unknown;
  readonly properties?: object;
  readonly additionalProperties?: unknown;
}

interface Document {
  readonly info: object;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

const HEADERS = {
  'X-Request-Id': {
    schema: { type: 'string' },
    description: 'Id of the request, which is also in the log of the server and in `instance` of a problem.',
  },
  'Retry-After': { schema: { type: 'integer' }, description: 'Seconds until the request can be retried.' },
  'Questlog-Ignored-Fields': {
    schema: { type: 'string' },
    description: 'JSON pointers of the first ten fields of the request that the contract does not define.',
  },
};

export function completeDocument(document: Record<string, unknown>): Record<string, unknown> {
  const copy: Document = JSON.parse(JSON.stringify(document), (_, value) => withAnyProperties(value));
  const { components, info, paths } = copy;
  const used = new Set<string>();
  for (const operation of Object.values(paths).flatMap((methods) => Object.values(methods))) {
    for (const [status, response] of Object.entries(operation.responses)) {
      const names = headersOf(operation, Number(status), response);
      for (const name of names) used.add(name);
      const references = names.map((name) => [name, { $ref: `#/components/headers/${name}` }]);
      response.headers = { ...Object.fromEntries(references), ...response.headers };
    }
  }
  const names = namesOf(components.schemas);
  return {
    ...copy,
    info: { ...info, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: '/', description: 'The listener that returns this document.' }],
    paths: withReferences(paths, names),
    components: {
      ...components,
      headers: Object.fromEntries(Object.entries(HEADERS).filter(([name]) => used.has(name))),
      schemas: Object.fromEntries(
        Object.entries(components.schemas).map(([name, schema]) => [
          name,
          withReferencesInside(schema, names),
        ]),
      ),
    },
  };
}

/** Says explicitly that an object without declared properties can have any properties. */
function withAnyProperties(value: Schema | null): Schema | null {
  if (value?.type !== 'object' || value.additionalProperties !== undefined) return value;
  return Object.keys(value.properties ?? {}).length > 0 ? value : { ...value, additionalProperties: true };
}

function headersOf(
  { parameters = [] }: Operation,
  status: number,
  { content = {} }: Response,
): (keyof typeof HEADERS)[] {
  const canIgnoreFields = status < 300 && parameters.some(({ name }) => name === 'Prefer');
  return [
    'X-Request-Id',
    // The 503 of `/readyz` is not a problem document and has no `Retry-After`.
    ...((status === 429 || status === 503) && 'application/problem+json' in content
      ? (['Retry-After'] as const)
      : []),
    ...(canIgnoreFields ? (['Questlog-Ignored-Fields'] as const) : []),
  ];
}

function namesOf(schemas: Readonly<Record<string, object>>): ReadonlyMap<string, string> {
  return new Map(Object.entries(schemas).map(([name, schema]) => [JSON.stringify(schema), name]));
}

function withReferences(value: unknown, names: ReadonlyMap<string, string>): unknown {
  const isSchema = typeof value === 'object' && value !== null && 'properties' in value;
  const name = isSchema ? names.get(JSON.stringify(value)) : undefined;
  return name === undefined ? withReferencesInside(value, names) : { $ref: `#/components/schemas/${name}` };
}

function withReferencesInside(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(value)) return value.map((item) => withReferences(item, names));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withReferences(item, names)]));
}
