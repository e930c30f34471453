/** The operations of sessions, and of the builds and players that they tell of, in the OpenAPI document. */
import {
  answer,
  BAD_PAGE,
  CLOCK_SKEW,
  CODING,
  EVENT_PAGE,
  id,
  NOT_THERE,
  PAGE,
  PREFER,
  problem,
  read,
  write,
} from './openapiParts.ts';

const externalId = { name: 'externalId', in: 'path', required: true, schema: { type: 'string' } };

export function sessionPaths(): Record<string, object> {
  return {
    '/v1/ingest/sessions': { post: registerOperation() },
    '/v1/sessions/{id}': {
      get: read('A session of the project.', answer('The session.', 'Session'), {
        parameters: [id],
        rejections: NOT_THERE,
      }),
    },
    '/v1/sessions/{id}/events': {
      get: read('The events of a session, by `occurredAt`.', answer('A page of events.', 'EventPage'), {
        parameters: [id, ...EVENT_PAGE],
        rejections: { ...BAD_PAGE, ...NOT_THERE },
      }),
    },
    '/v1/players/{externalId}/sessions': {
      get: read(
        'The sessions of a player, the newest first; none where nobody has such a player.',
        answer('A page of sessions.', 'SessionPage'),
        { parameters: [externalId, ...PAGE], rejections: BAD_PAGE },
      ),
    },
    '/v1/builds': {
      get: read(
        'The builds that sessions were registered with, the newest first.',
        answer('A page of builds.', 'BuildPage'),
        { parameters: PAGE, rejections: BAD_PAGE },
      ),
    },
  };
}

function registerOperation(): object {
  const texts = {
    summary: 'Registers a session with its build and its player.',
    description:
      'Scope `events:write`. A repeat with the same `id` is answered 200. An empty string in an optional field is as if ' +
      'it were omitted. Events of the session that name no `buildId` get its build’s.',
    parameters: [PREFER, CODING],
  };
  return write(texts, 'SessionInput', {
    201: { ...answer('The new session.', 'SessionCreated'), headers: CLOCK_SKEW },
    200: answer('The session, registered earlier.', 'SessionCreated'),
    400: problem('The body is not valid. Every bad field is named.'),
    409: problem('The id is registered with other content.'),
    413: problem('The body or its metadata is too large.'),
    415: problem('The media type or content coding is not supported.'),
  });
}
