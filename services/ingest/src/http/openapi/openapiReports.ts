/** The operations of bug reports in the OpenAPI document. */
import { answer, COMMON, header, id, json, NOT_THERE, PAGE, problem, read, ref } from './openapiParts.ts';

export function reportPaths(): Record<string, object> {
  return {
    '/v1/reports': { post: createOperation() },
    '/v1/reports/{id}': {
      get: read(
        'A bug report of the project with its links, at most 10000; `linksTruncated` says that there are more.',
        answer('The report.', ref('Report')),
        { parameters: [id], refusals: NOT_THERE },
      ),
      delete: {
        summary: 'Retracts a bug report: its links are taken back. The report stays readable.',
        description: 'Scope `reports:write`. Once more is a 204 too.',
        parameters: [id],
        responses: { 204: { description: 'It is retracted.' }, ...NOT_THERE, ...COMMON },
      },
    },
    '/v1/reports/{id}/events': {
      get: read(
        'The stored events that are or were linked to a report, by `occurredAt`.',
        answer('A page.', ref('ReportEventPage')),
        {
          parameters: [id, ...PAGE],
          refusals: { 400: problem('The limit or the cursor is not valid.'), ...NOT_THERE },
        },
      ),
    },
  };
}

function createOperation(): object {
  return {
    summary: 'Files a bug report, which names a session, events, or both, and may bring events with it.',
    description:
      'Scope `reports:write`, which is all that its events need too: they are stored, counted in the quota and linked ' +
      'like any other. Events of the session in the report’s window are linked to it as well. Only a request ' +
      'with an `id` may be repeated safely: the same again is answered 200 and stores what is missing, nothing twice. ' +
      'Without one it is another report. A 503 with a `Location` says that the report exists without some of its ' +
      'events: the same request with the id that it names completes it.',
    parameters: [header('Content-Encoding', 'gzip, deflate, br or zstd.')],
    requestBody: { required: true, content: json(ref('ReportInput')) },
    responses: {
      201: answer('The report, its events as created, its links.', ref('ReportCreated')),
      200: answer('The same, filed before (`Idempotency-Replayed: true`).', ref('ReportCreated')),
      400: problem('The body is not valid; every bad field and event is named.'),
      404: problem('A session does not exist in the project.'),
      409: problem('The id is taken by a report with other content.'),
      413: problem('The body, the events or one of them is too large.'),
      415: problem('Another media type or content coding.'),
      ...COMMON,
      503: {
        ...COMMON[503],
        headers: { Location: { schema: { type: 'string' }, description: 'The report, where it exists.' } },
      },
    },
  };
}
