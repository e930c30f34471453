/** `docs/reference/problems.md`: the closed list of problem codes. */
import { PROBLEMS } from '@questlog/schemas/http/problem';
import { code, fence, page } from './markdown.ts';

const EXAMPLE = `{
  "type": "urn:questlog:problem:invalid_elements",
  "title": "${PROBLEMS.invalid_elements[1]}",
  "status": 400,
  "code": "invalid_elements",
  "detail": "1 of 2 elements is not valid",
  "instance": "urn:questlog:request:0b9c7a52-6f0a-4d0e-9f3c-0c3f4b8c5b1e",
  "message": "1 of 2 elements is not valid",
  "error": "${PROBLEMS.invalid_elements[1]}",
  "errors": [{ "index": 1, "pointer": "/sessionId", "code": "field_required", "detail": "sessionId is required" }]
}`;

export function problemsPage(): string {
  const rows = Object.entries(PROBLEMS)
    .toSorted(([, [a]], [, [b]]) => a - b)
    .map(([name, [status, title]]) => `- ${status} ${code(name)}: ${title}.`);
  return page('Problem codes', 'schemas/src/http/problem.ts', [
    'Every error is `application/problem+json` (RFC 9457). The list is closed; a code never changes its meaning. `title`\nbelongs to the code, `detail` to the request. `error` and `message` repeat them: existing clients of games print those.',
    rows.join('\n'),
    '`errors` names every bad element: its index in the array, a JSON pointer (RFC 6901) into it, the code and the detail.\n`instance` holds the request id, also in `X-Request-Id`.',
    fence('json', EXAMPLE),
  ]);
}
