/** `docs/reference/http.md`: the endpoints of both listeners and the shapes of their bodies. */
import { openApi } from '@questlog/ingest/http/openapi/openapi';
import { ADMIN_ENDPOINTS, ADMIN_SHAPES } from './adminEndpoints.ts';
import { code, page, table } from './markdown.ts';
import { fieldLines, type Shape, TIMESTAMP, typeOf } from './shapes.ts';

interface Content {
  readonly description?: string;
  readonly content?: Readonly<Record<string, { readonly schema: Shape }>>;
}

interface Operation {
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly { name: string; in: string; description?: string; schema: Shape }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Shape>> };
}

export function httpPage(): string {
  // The deployment's default revision makes no difference to the endpoints.
  const { paths, components }: Document = JSON.parse(JSON.stringify(openApi('A')));
  const named = { ...components.schemas, ...shapes(ADMIN_SHAPES) };
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const common = answersOfAll(operations.map(({ operation }) => operation));
  return page('HTTP', 'services/ingest/src/http/openapi/openapi.ts and schemas/src/http', [
    'Errors are [problem documents](problems.md). Bearer tokens belong to one project and have scopes.',
    '## The public listener',
    'For games; `GET /openapi.json` is the same for machines. Every endpoint that needs a token also answers:',
    common.join('\n'),
    ...operations.flatMap(({ path, method, operation }) => operationBlocks(method, path, operation, common)),
    '## The admin listener',
    'For operators; never on a public port. All but the last three need `Authorization: Bearer <adminToken>`.',
    table(
      ['endpoint', 'body', 'answer', 'meaning'],
      ADMIN_ENDPOINTS.map(({ method, path, body, answer, meaning }) => [
        code(`${method} ${path}`),
        body === undefined ? '' : typeOf({ $ref: body }),
        answer,
        meaning,
      ]),
    ),
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
      return `- ${place} \`${name}\`: ${meaning ?? typeOf(schema)}${defaultOf(schema)}`;
    });
  const lines = [...told, ...answersOf(operation).filter((answer) => !common.includes(answer))];
  return [
    `### ${method.toUpperCase()} ${path}`,
    [summary, description].filter(Boolean).join(' '),
    ...(requestBody === undefined ? [] : [`Body: ${bodyOf(requestBody)}.`]),
    lines.join('\n'),
  ];
}

/** A problem's body is told once, at the top. */
function answersOf({ responses }: Operation): string[] {
  return Object.entries(responses).map(([status, response]) => {
    const body = Number(status) < 400 ? bodyOf(response) : '';
    return `- ${status}${body === '' ? '' : ` ${body}`}: ${response.description ?? ''}`;
  });
}

/** The answers that every operation with a token has in common. */
function answersOfAll(operations: readonly Operation[]): string[] {
  const [first = [], ...others] = operations.map(answersOf).filter((answers) => answers.length > 1);
  return first.filter((answer) => others.every((answers) => answers.includes(answer)));
}

/** A shape that holds all lines of another one tells only the rest. */
function shapeBlocks(named: Readonly<Record<string, Shape>>): string[] {
  const listed = Object.entries(named).map(
    ([name, shape]) => [name, fieldLines(linked(shape, named))] as const,
  );
  return listed.flatMap(([name, lines]) => {
    const [base, held] = listed
      .filter(([, others]) => others.length < lines.length && others.every((line) => lines.includes(line)))
      .reduce((longest, one) => (one[1].length > longest[1].length ? one : longest), ['', []] as const);
    const intro = base === '' ? [] : [`As ${typeOf({ $ref: base })}, and:`];
    return [`### ${name}`, ...intro, lines.filter((line) => !held.includes(line)).join('\n')];
  });
}

function bodyOf({ content = {} }: Content): string {
  return Object.values(content)
    .map(({ schema }) => typeOf(schema))
    .join(' or ');
}

function defaultOf(schema: Shape): string {
  return schema.default === undefined ? '' : `, by default ${schema.default}`;
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
function shapes(given: object): Readonly<Record<string, Shape>> {
  return JSON.parse(JSON.stringify(given));
}
