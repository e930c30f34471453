/** `docs/reference/http.md`: the endpoints of both listeners and the shapes of their bodies. */
import { isDeepStrictEqual } from 'node:util';
import { openApi } from '@questlog/ingest/http/openapi/openapi';
import { adminApi } from '@questlog/ingest/http/openapi/openapiAdmin';
import { code, fence, page } from './markdown.ts';
import { type Field, fieldsOf, type Shape, TIMESTAMP, typeOf } from './shapes.ts';

interface Content {
  readonly description?: string;
  readonly content?: Readonly<Record<string, { readonly schema: Shape }>>;
}

interface Operation {
  readonly summary: string;
  readonly description?: string;
  /** Empty if the operation needs no token. */
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

/** Longer lines of a fenced block scroll. */
const MAX_LINE = 120;

export function httpPage(): string {
  // The deployment's default revision makes no difference to the endpoints.
  const ofGames = asSent(openApi('A'));
  const ofOperators = asSent(adminApi());
  const { Problem: _, ...named } = { ...ofGames.components.schemas, ...ofOperators.components.schemas };
  const operations = operationsOf(ofGames);
  const common = refusalsOfAll(operations.map(({ operation }) => operation));
  const explained = new Set<string>();
  return page('HTTP', 'services/ingest/src/http/openapi/openapi.ts and schemas/src/http', [
    'Errors are [problem documents](problems.md). A bearer token belongs to one project and has scopes. `GET /openapi.json` on each listener\nhas the same content as OpenAPI 3.1. The meaning of a parameter or field is given where it first appears.',
    '## The public listener',
    `This listener is for games. Every endpoint that needs a token can also answer ${common.join(', ')}. A 503 has \`Retry-After\`. An unknown
path gets 404, and another method 405. If a request is rejected before its body has arrived, the connection closes.`,
    ...operations.flatMap(({ path, method, operation }) =>
      operationBlocks({ path, method, operation }, common, explained),
    ),
    '## The admin listener',
    'This listener is for operators. Never expose it publicly. All endpoints except the last four need `Authorization: Bearer <adminToken>`.\nCreating a tenant or project that exists with the same content gets 200, with other content 409.',
    operationsOf(ofOperators).map(adminLine).join('\n'),
    '## Shapes',
    `TypeScript notation: \`?\` marks a field that may be omitted, and \`...X\` all other fields of X. Timestamps: ${TIMESTAMP}`,
    ...shapeBlocks(named),
  ]);
}

/** @param explained the parameters whose meaning was given; grows. */
function operationBlocks(
  { path, method, operation }: Told,
  common: readonly string[],
  explained: Set<string>,
): string[] {
  const { summary, description, parameters = [], requestBody } = operation;
  const told = parameters
    .filter((parameter) => parameter.in !== 'path')
    .map(({ name, in: place, description: meaning, schema }) => {
      const byDefault = schema.default === undefined ? '' : `, default ${schema.default}`;
      const text = `- ${place} ${code(name)} ${typeOf(schema)}${byDefault}`;
      const isNew = meaning !== undefined && !explained.has(`${name} ${meaning}`);
      explained.add(`${name} ${meaning}`);
      return isNew ? `${text}: ${meaning}` : text;
    });
  const answers = answersOf(operation);
  const toldOnce = needsToken(operation) ? common : [];
  const refused = refusalsOf(operation).filter((status) => !toldOnce.includes(status));
  const [only] = answers.length === 1 ? answers : [];
  const traffic = [
    requestBody === undefined ? '' : `Body: ${bodyOf(requestBody)}.`,
    // The summary says what a single answer is.
    only === undefined ? '' : `Answer: ${only.what}.`,
    refused.length === 0 ? '' : `Errors: ${refused.join(', ')}.`,
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

/** Returns a block for each shape. A shape with all fields of another one has only the differences. */
function shapeBlocks(named: Readonly<Record<string, Shape>>): string[] {
  const all = Object.entries(named).map(([name, shape]) => ({
    name,
    fields: fieldsOf(linked(shape, named)),
  }));
  const explained = new Set<string>();
  return all.flatMap(({ name, fields }) => {
    const [base] = all
      .filter((other) => other.name !== name && other.fields.length < fields.length + 1)
      .filter((other) => other.fields.every((field) => fields.some((own) => own.name === field.name)))
      .map((other) => ({ ...other, others: withoutThose(other.fields, fields) }))
      .filter((other) => isBefore(all, other, { name, fields }) && other.others.length + 1 < fields.length)
      .sort((a, b) => a.others.length - b.others.length);
    const lines = (base?.others ?? fields).map((field) => lineOf(field, explained));
    return [
      `### ${name}`,
      fence('ts', [...(base === undefined ? [] : [`...${base.name}`]), ...lines].join('\n')),
    ];
  });
}

interface NamedFields {
  readonly name: string;
  readonly fields: readonly Field[];
}

/** True if a shape may refer to the other one: the other one has fewer fields, or as many and comes first. */
function isBefore(all: readonly NamedFields[], other: NamedFields, shape: NamedFields): boolean {
  if (other.fields.length !== shape.fields.length) return other.fields.length < shape.fields.length;
  return all.findIndex(({ name }) => name === other.name) < all.findIndex(({ name }) => name === shape.name);
}

/** @param explained the fields whose meaning was given; grows. */
function lineOf({ name, isOptional, notation, meaning }: Field, explained: Set<string>): string {
  const isNew = meaning !== '' && !explained.has(`${name} ${meaning}`);
  explained.add(`${name} ${meaning}`);
  const field = `${isOptional ? `${name}?` : name}: ${notation}`;
  if (!isNew) return field;
  const line = `${field} // ${meaning}`;
  return line.length <= MAX_LINE ? line : [...comment(meaning), field].join('\n');
}

/** Returns the text as comment lines that fit on a page. */
function comment(text: string): string[] {
  const lines = [''];
  for (const word of text.split(/\s+/)) {
    const line = `${lines.at(-1)} ${word}`;
    if (line.length > MAX_LINE) lines.push(` ${word}`);
    else lines[lines.length - 1] = line;
  }
  return lines.map((line) => `//${line}`);
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

/** Removes the properties of TypeBox that JSON does not contain. */
function asSent(document: Record<string, unknown>): Document {
  return JSON.parse(JSON.stringify(document));
}

function operationsOf({ paths }: Document): Told[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
}
