/** The API for games: the operations of the public listener. */
import * as event from '../event.ts';
import * as problem from '../problem.ts';
import * as quota from '../quota.ts';
import * as report from '../report.ts';
import * as session from '../session.ts';
import * as upload from '../upload.ts';
import { EVENTS } from './events.ts';
import type { Api, GameOperations } from './operation.ts';
import { ANY_OBJECT, answer, HEALTHY } from './parts.ts';
import { REPORTS, ShownReportInput } from './reports.ts';
import { SESSIONS, ShownSessionInput } from './sessions.ts';
import { UPLOADS } from './uploads.ts';

export const GAMES = {
  ...EVENTS,
  ...SESSIONS,
  ...UPLOADS,
  ...REPORTS,
  getHealth: {
    route: 'GET /health',
    access: 'anyone',
    summary: 'Checks that the service answers. Needs no token.',
    responses: { 200: answer('The service answers.', HEALTHY) },
  },
  getOpenApi: {
    route: 'GET /openapi.json',
    access: 'anyone',
    summary: 'Returns this API as an OpenAPI 3.1 document.',
    responses: { 200: answer('The document.', ANY_OBJECT) },
  },
} as const satisfies GameOperations;

/** @param revision default revision of the deployment */
export function gamesApi(revision: string): Api {
  return {
    title: 'Questlog',
    description: `Telemetry events of games. The default revision of the API is ${revision}. A project can use the other revision.`,
    token:
      'An access token of a project. After `npm start`, it is `token` in `.data/dev-credentials.json`. To create a token, run ' +
      '`npx questlog tokens create`.',
    operations: GAMES,
    schemas: [
      { SessionInput: ShownSessionInput, ReportInput: ShownReportInput },
      ...[event, session, upload, report, quota, problem],
    ],
  };
}
