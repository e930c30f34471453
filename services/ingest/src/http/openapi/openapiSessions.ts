/** OpenAPI operations of sessions, builds, and players. */
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
} from '@questlog/runtime/http/openapi/openapiParts';

const externalId = { name: 'externalId', in: 'path', required: true, schema: { type: 'string' } };

export function sessionPaths(): Record<string, object> {
  return {
    '/v1/ingest/sessions': { post: registerOperation() },
    '/v1/sessions/{id}': {
      get: read('getSession', 'Returns a session of the project.', answer('The session.', 'Session'), {
        parameters: [id],
        rejections: NOT_THERE,
      }),
    },
    '/v1/sessions/{id}/events': {
      get: read(
        'listSessionEvents',
        'Lists the events of a session, by `occurredAt`.',
        answer('A page of events.', 'EventPage'),
        {
          parameters: [id, ...EVENT_PAGE],
          rejections: { ...BAD_PAGE, ...NOT_THERE },
        },
      ),
    },
    '/v1/players/{externalId}/sessions': {
      get: read(
        'listPlayerSessions',
        'Lists the sessions of a player, the newest first. The list is empty if the project does not have the player.',
        answer('A page of sessions.', 'SessionPage'),
        { parameters: [externalId, ...PAGE], rejections: BAD_PAGE },
      ),
    },
    '/v1/builds': {
      get: read(
        'listBuilds',
        'Lists the builds of registered sessions, the newest first.',
        answer('A page of builds.', 'BuildPage'),
        { parameters: PAGE, rejections: BAD_PAGE },
      ),
    },
  };
}

function registerOperation(): object {
  const texts = {
    operationId: 'registerSession',
    summary: 'Registers a session with its build and its player.',
    description:
      'Requires the scope `events:write`. A retry with the same `id` returns 200. An empty string in an optional field counts as ' +
      'omitted. Events of the session without a `buildId` get the build of the session.',
    parameters: [PREFER, CODING],
  };
  return write(texts, 'SessionInput', {
    201: { ...answer('The new session.', 'SessionCreated'), headers: CLOCK_SKEW },
    200: answer('The session, registered earlier.', 'SessionCreated'),
    400: problem('The body is not valid. The problem lists every invalid field.'),
    409: problem('The id is registered with other content.'),
    413: problem('The body or its metadata is too large.'),
    415: problem('The media type or content coding is not supported.'),
  });
}
