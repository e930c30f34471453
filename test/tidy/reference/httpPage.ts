/** `docs/reference/http.md`: the endpoints of both listeners and the shapes of their bodies. */
import { isDeepStrictEqual } from 'node:util';
import { openApi } from '@questlog/ingest/http/openapi/openapi';
import { adminApi } from '@questlog/ingest/http/openapi/openapiAdmin';
import { code, page } from './markdown.ts';
import { type Field, fieldsOf, type Shape, TIMESTAMP, typeOf } from './shapes.ts';

interface Content {
  readonly description?: string;
  readonly content?: Readonly<Record<string, { readonly schema: Shape }>>;
}

interface Operation {
  readonly summary: string;
  readonly description?: string;
  /** Empty where no token is needed. */
  readonly security?: readonly object[];
  readonly parameters?: readonly { name: string; in: string; description?: string; schema: Shape }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Shape>> };
}

interface Told {
  readonly path: string;
  readonly method: string;
  readonly operation: Operation;
}

export function httpPage(): string {
  // The deployment's default revision makes no difference to the endpoints.
  const ofGames = asSent(openApi('A'));
  const ofOperators = asSent(adminApi());
  const { Problem: _, ...named } = { ...ofGames.components.schemas, ...ofOperators.components.schemas };
  const operations = operationsOf(ofGames);
  const common = refusalsOfAll(operations.map(({ operation }) => operation));
  return page('HTTP', 'services/ingest/src/http/openapi/openapi.ts and schemas/src/http', [
    'Errors are problem documents; [the codes](problems.md) say what each status means. A bearer token belongs to one project\nand has scopes.',
    '## The public listener',
    `For games; \`GET /openapi.json\` is the same for machines. Every endpoint that needs a token also answers ${common.join(', ')};\na 503 has \`Retry-After\`. Another method on one of these paths is a 405, another path a 404. A request that is refused
before its body has come ends its connection.`,
    ...operations.flatMap(({ path, method, operation }) => operationBlocks(method, path, operation, common)),
    '## The admin listener',
    'For operators; never on a public port. `GET /openapi.json` there is the same for machines. All but the last four need\n`Authorization: Bearer <adminToken>`. A tenant or project that exists with the same content is a 200, with other content a\n409.',
    operationsOf(ofOperators).map(adminLine).join('\n'),
    '## Shapes',
    `A \`?\` marks a field that may be omitted. Timestamps: ${TIMESTAMP}`,
    ...shapeBlocks(named),
  ]);
}

function operationBlocks(
  method: string,
  path: string,
  operation: Operation,
  common: readonly string[],
): string[] {
  const { summary, description, parameters = [], requestBody } = operation;
  const told = parameters
    .filter((parameter) => parameter.in !== 'path')
    .map(({ name, in: place, description: meaning, schema }) => {
      const byDefault = schema.default === undefined ? '' : `, default ${schema.default}`;
      const text = `- ${place} ${code(name)} ${typeOf(schema)}${byDefault}`;
      return meaning === undefined ? text : `${text}: ${meaning}`;
    });
  const answers = answersOf(operation);
  const toldOnce = needsToken(operation) ? common : [];
  const refused = refusalsOf(operation).filter((status) => !toldOnce.includes(status));
  const [only] = answers.length === 1 ? answers : [];
  const traffic = [
    requestBody === undefined ? '' : `Body: ${bodyOf(requestBody)}.`,
    // The summary says what a single answer is.
    only === undefined ? '' : `Answer: ${only.what}.`,
    refused.length === 0 ? '' : `Refused: ${refused.join(', ')}.`,
  ];
  const listed = only === undefined ? answers.map(({ what, meaning }) => `- ${what}: ${meaning}`) : [];
  return [
    `### ${method.toUpperCase()} ${path}`,
    [summary, description].filter(Boolean).join(' '),
    traffic.filter(Boolean).join(' '),
    [...told, ...listed].join('\n'),
  ].filter(Boolean);
}

function adminLine({ method, path, operation }: Told): string {
  const { summary, description = '', parameters = [], requestBody } = operation;
  const taken = requestBody === undefined ? '' : ` ${bodyOf(requestBody)}`;
  const given = answersOf(operation).map(({ what }) => what);
  const asked = parameters.flatMap(({ name, in: place }) => (place === 'query' ? [code(name)] : []));
  const told = [summary, asked.length > 0 && `Parameters: ${asked.join(', ')}.`, description].filter(Boolean);
  // A list in a description is the line's own.
  const text = told.join(' ').replace(/\n+- /g, '\n  - ');
  return `- ${code(`${method.toUpperCase()} ${path}`)}${taken} → ${given.at(-1)}: ${text}`;
}

function answersOf({ responses }: Operation): { what: string; meaning: string }[] {
  return Object.entries(responses)
    .filter(([status]) => !isRefusal(status))
    .map(([status, response]) => {
      return { what: `${status} ${bodyOf(response)}`.trimEnd(), meaning: response.description ?? '' };
    });
}

function refusalsOf({ responses }: Operation): string[] {
  return Object.keys(responses).filter(isRefusal);
}

/** The refusals that every operation with a token has in common. */
function refusalsOfAll(operations: readonly Operation[]): string[] {
  const [first = [], ...others] = operations.filter(needsToken).map(refusalsOf);
  return first.filter((status) => others.every((statuses) => statuses.includes(status)));
}

function needsToken({ security }: Operation): boolean {
  return security === undefined;
}

function isRefusal(status: string): boolean {
  return Number(status) >= 400;
}

/** A shape with the fields of an earlier one tells only what differs; a meaning is told once. */
function shapeBlocks(named: Readonly<Record<string, Shape>>): string[] {
  const earlier: { name: string; fields: readonly Field[] }[] = [];
  const told = new Set<string>();
  const lineOf = (field: Field): string => {
    const { name, meaning } = field;
    const isNew = meaning !== '' && !told.has(`${name} ${meaning}`);
    told.add(`${name} ${meaning}`);
    return `- ${typed(field)}${isNew ? `: ${meaning}` : ''}`;
  };
  return Object.entries(named).flatMap(([name, shape]) => {
    const fields = fieldsOf(linked(shape, named));
    const [base] = earlier
      .filter((other) => other.fields.every((field) => fields.some((own) => own.name === field.name)))
      .map((other) => ({ name: other.name, others: withoutThose(other.fields, fields) }))
      .filter(({ others }) => others.length + 1 < fields.length)
      .sort((a, b) => a.others.length - b.others.length);
    earlier.push({ name, fields });
    const rest = base?.others ?? fields;
    const intro = base === undefined ? '' : `As ${typeOf({ $ref: base.name })}, with`;
    const isPlain = rest.every(({ meaning }) => meaning === '');
    if (isPlain) return [`### ${name}`, `${intro} ${rest.map(typed).join(', ')}.`.trim()];
    return [`### ${name}`, ...(intro === '' ? [] : [`${intro}:`]), rest.map(lineOf).join('\n')];
  });
}

function typed({ name, isOptional, type }: Field): string {
  return `${code(isOptional ? `${name}?` : name)} ${type}`;
}

function withoutThose(base: readonly Field[], fields: readonly Field[]): Field[] {
  return fields.filter((field) => !base.some((other) => isDeepStrictEqual(field, other)));
}

function bodyOf({ content = {} }: Content): string {
  return Object.values(content)
    .map(({ schema }) => typeOf(schema))
    .join(' or ');
}

/** The shape with a link in place of a field's array of another shape that has a name. */
function linked(shape: Shape, named: Readonly<Record<string, Shape>>): Shape {
  const nameOf = (item: Shape | undefined): string | undefined =>
    Object.keys(named).find((name) => JSON.stringify(named[name]) === JSON.stringify(item));
  const fields = Object.entries(shape.properties ?? {}).map(([field, value]) => {
    const name = nameOf(value.items);
    return [field, name === undefined ? value : { ...value, items: { $ref: name } }];
  });
  return { ...shape, properties: Object.fromEntries(fields) };
}

/** TypeBox keeps more than JSON schema; only that is told. */
function asSent(document: Record<string, unknown>): Document {
  return JSON.parse(JSON.stringify(document));
}

function operationsOf({ paths }: Document): Told[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
}
