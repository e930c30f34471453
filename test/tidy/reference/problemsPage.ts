/** `docs/reference/problems.md`: the closed list of problem codes, and an example as the product answers it. */
import { readElements } from '@questlog/ingest/events/core/envelope';
import { elementsRejection, scanRequest } from '@questlog/ingest/events/core/scanBody';
import { problemAnswer } from '@questlog/runtime/http/problems';
import { PROBLEMS } from '@questlog/schemas/http/problem';
import { code, fence, page } from './markdown.ts';

const REQUEST = `[{"sessionId": "7846b5f4-39dd-4381-b200-dbc9f59749ad", "eventType": "checkpoint"},
 {"eventType": "level_up"}]`;
const REQUEST_ID = '0b9c7a52-6f0a-4d0e-9f3c-0c3f4b8c5b1e';

export function problemsPage(): string {
  const byStatus = Map.groupBy(Object.entries(PROBLEMS), ([, [status]]) => status);
  const statuses = [...byStatus].toSorted(([a], [b]) => a - b);
  return page('Problem codes', 'schemas/src/http/problem.ts', [
    'The content type of every error is `application/problem+json` (RFC 9457). The meaning of a problem code never changes. The field `title` describes\nthe code, and the field `detail` describes the cause in this request. The fields `error` and `message` repeat `title` and `detail` for older\ngame clients.',
    ...statuses.flatMap(([status, problems]) => [
      `## ${status}`,
      // Each code is a heading, so that the console can link to the code.
      ...problems.map(([name, [, title]]) => `### ${code(name)}\n\n${title}.`),
    ]),
    '## Example',
    'For each invalid element of a batch, the field `errors` has the index in the array, a JSON pointer (RFC 6901), the code, and the detail. The\nfield `instance` and the header `X-Request-Id` contain the request id. In this example, the second event names no session, but revision A\nrequires a session:',
    fence('json', REQUEST),
    fence('json', JSON.stringify(answerTo(REQUEST), null, 2)),
  ]);
}

/** Returns the problem document that ingest answers to a batch of events in revision A. */
function answerTo(request: string): unknown {
  const body = Buffer.from(request);
  const { problems } = readElements(body, scanRequest(body, 'A').elements, 'A');
  return JSON.parse(problemAnswer(elementsRejection(problems), REQUEST_ID).body);
}
