/** Operations on sessions, builds, and players. */
import { EventPage } from '../event.ts';
import { BuildPage, SessionCreated, SessionInput, SessionOutput, SessionPage } from '../session.ts';
import { acceptedSchema } from './acceptedSchema.ts';
import type { GameOperations } from './operation.ts';
import {
  ANY_TEXT,
  answer,
  BAD_PAGE,
  CLOCK_SKEW,
  CODING,
  EVENT_PAGE,
  NOT_IN_PROJECT,
  PAGE,
  PREFER,
} from './parts.ts';

export const ShownSessionInput = acceptedSchema(SessionInput, true);

export const SESSIONS = {
  registerSession: {
    route: 'POST /v1/ingest/sessions',
    access: 'events:write',
    summary: 'Registers a session with its build and its player.',
    description:
      'A retry with the same `id` returns 200. An empty string in an optional field counts as omitted. Events of the session without a ' +
      '`buildId` get the build of the session.',
    parameters: [PREFER, CODING],
    body: SessionInput,
    bodyMode: 'unread',
    shownBody: ShownSessionInput,
    responses: {
      201: answer('The new session.', SessionCreated, { headers: CLOCK_SKEW }),
      200: answer('The session, registered earlier.', SessionCreated, { headers: CLOCK_SKEW }),
      409: 'The id is registered with other content.',
      413: 'The body or its metadata is too large.',
    },
  },
  getSession: {
    route: 'GET /v1/sessions/{id}',
    access: 'read',
    summary: 'Returns a session of the project.',
    responses: { 200: answer('The session.', SessionOutput), 404: NOT_IN_PROJECT },
  },
  listSessionEvents: {
    route: 'GET /v1/sessions/{id}/events',
    access: 'read',
    summary: 'Lists the events of a session, by `occurredAt`.',
    parameters: EVENT_PAGE,
    responses: { 200: answer('A page of events.', EventPage), 400: BAD_PAGE, 404: NOT_IN_PROJECT },
  },
  listPlayerSessions: {
    route: 'GET /v1/players/{externalId}/sessions',
    access: 'read',
    summary:
      'Lists the sessions of a player, the newest first. The list is empty if the project does not have the player.',
    parameters: [{ name: 'externalId', in: 'path', required: true, schema: ANY_TEXT }, ...PAGE],
    responses: { 200: answer('A page of sessions.', SessionPage), 400: BAD_PAGE },
  },
  listBuilds: {
    route: 'GET /v1/builds',
    access: 'read',
    summary: 'Lists the builds of registered sessions, the newest first.',
    parameters: PAGE,
    responses: { 200: answer('A page of builds.', BuildPage), 400: BAD_PAGE },
  },
} as const satisfies GameOperations;
