/** `docs/reference/http.md`: the endpoints of both listeners. The OpenAPI documents beside the page describe bodies and parameters. */
import { openApi } from '@questlog/ingest/http/openapi/openapi';
import { adminApi } from '@questlog/operations/http/openapi/openapiAdmin';
import { code, list, page } from './markdown.ts';

interface Operation {
  readonly summary: string;
  readonly description?: string;
  readonly responses: Readonly<Record<string, unknown>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

/** The default revision of a deployment does not change the endpoints. */
const PUBLIC = asSent(openApi('A'));
const ADMIN = asSent(adminApi());

export function httpPage(): string {
  return page('HTTP', 'services/ingest/src/http/openapi/openapi.ts and openapiAdmin.ts', [
    'Parameters, bodies, limits, and answers are in the OpenAPI 3.1 documents [openapi.json](openapi.json) and\n[openapi-admin.json](openapi-admin.json). Each listener also serves its document as `GET /openapi.json`. Every error is a\n[problem document](problems.md).',
    '## The public listener',
    'Games use this listener. A bearer token belongs to one project and has scopes, which are in parentheses.',
    endpoints(PUBLIC),
    '## The admin listener',
    'Operators use this listener. Never expose the admin listener to the internet. Requests need the\nadmin token as a bearer token. The last four endpoints need no token.',
    endpoints(ADMIN),
  ]);
}

/** Returns the texts of the two OpenAPI documents. */
export function openApiFiles(): Readonly<Record<string, string>> {
  return { 'openapi.json': textOf(PUBLIC), 'openapi-admin.json': textOf(ADMIN) };
}

function endpoints({ paths }: Document): string {
  return list(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => {
        const scope = scopeOf(operation);
        const suffix = scope === '' ? '' : ` (${code(scope)})`;
        return `${code(`${method.toUpperCase()} ${path}`)}${suffix}: ${firstSentence(operation.summary)}`;
      }),
    ),
  );
}

function firstSentence(text: string): string {
  return text.split(/(?<=\.) /)[0] ?? '';
}

function scopeOf({ description = '' }: Operation): string {
  return /scope `([a-z:]+)`/.exec(description)?.[1] ?? '';
}

/** Removes the properties of TypeBox that JSON does not contain. */
function asSent(document: Record<string, unknown>): Document {
  return JSON.parse(JSON.stringify(document));
}

function textOf(document: Document): string {
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
