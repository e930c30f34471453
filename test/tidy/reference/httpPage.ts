/** `docs/reference/http.md`: the endpoints of both listeners. The OpenAPI documents beside the page describe bodies and parameters. */
import { openApi } from '@questlog/ingest/http/openapi/openapi';
import { openApiDocument } from '@questlog/runtime/http/openapi/openApiDocument';
import { GAMES } from '@questlog/schemas/http/operations/games';
import { hasScope, type Operations } from '@questlog/schemas/http/operations/operation';
import { OPERATORS, OPERATORS_API } from '@questlog/schemas/http/operations/operators';
import { code, entry, list, page } from './markdown.ts';

export function httpPage(): string {
  return page('HTTP', 'schemas/src/http/operations', [
    'Parameters, bodies, limits, and answers are in the OpenAPI 3.1 documents [openapi.json](openapi.json) and\n[openapi-admin.json](openapi-admin.json). Every error is a\n[problem document](problems.md).',
    '## The public listener',
    'Games use this listener. A bearer token belongs to one project and has scopes. The scope that an operation needs is in parentheses.',
    endpoints(GAMES),
    '## The admin listener',
    'Operators use this listener. Never expose the admin listener to the internet. Requests need the\nadmin token as a bearer token. The last four endpoints of this list need no token.',
    endpoints(OPERATORS),
  ]);
}

/** Returns the texts of the two OpenAPI documents. The default revision of a deployment does not change the endpoints. */
export function openApiFiles(): Readonly<Record<string, string>> {
  return {
    'openapi.json': textOf(openApi('A')),
    'openapi-admin.json': textOf(openApiDocument(OPERATORS_API)),
  };
}

function endpoints(operations: Operations): string {
  return list(
    Object.values(operations).map(({ route, access, summary }) => {
      const suffix = hasScope(access) ? ` (${code(access)})` : '';
      return entry(`${code(route)}${suffix}`, firstSentence(summary));
    }),
  );
}

function firstSentence(text: string): string {
  return text.split(/(?<=\.) /)[0] ?? '';
}

function textOf(document: object): string {
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
