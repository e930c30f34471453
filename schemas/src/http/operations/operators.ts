/** The API for operators: the operations of the operators' listener. */
import * as backup from '../../backups/backup.ts';
import * as admin from '../admin.ts';
import * as audit from '../audit.ts';
import * as clickhouse from '../clickhouse.ts';
import * as deadLetter from '../deadLetter.ts';
import * as erasure from '../erasure.ts';
import * as exported from '../export.ts';
import * as health from '../health.ts';
import * as ledger from '../ledger.ts';
import * as problem from '../problem.ts';
import * as report from '../report.ts';
import { CLICKHOUSE } from './clickhouse.ts';
import { DIRECTORY } from './directory.ts';
import { HEALTH } from './health.ts';
import { BACKUPS, JOBS, ShownErasureInput } from './jobs.ts';
import type { Api, Operations } from './operation.ts';
import { ANY_OBJECT, answer, BYTES, NOT_THERE, textHeader } from './parts.ts';
import { QUERIES } from './queries.ts';

export const OPERATORS = {
  ...DIRECTORY,
  ...QUERIES,
  ...JOBS,
  ...BACKUPS,
  ...CLICKHOUSE,
  getUpload: {
    route: 'GET /admin/uploads/{projectId}/{uploadId}',
    summary:
      'Returns a file of a report. PNG, JPEG, WebP, and GIF files up to 16 MiB have their own media type. All other files are plain text or bytes to ' +
      'download.',
    responses: {
      200: answer('The file.', BYTES, {
        type: 'application/octet-stream',
        headers: textHeader('Content-Disposition', 'The original name of a file to download, or `inline`.'),
      }),
      404: NOT_THERE,
    },
  },
  ...HEALTH,
  getOpenApi: {
    route: 'GET /openapi.json',
    access: 'anyone',
    summary: 'Returns this API as an OpenAPI 3.1 document.',
    responses: { 200: answer('The service answers.', ANY_OBJECT) },
  },
} as const satisfies Operations;

export const OPERATORS_API: Api = {
  title: 'Questlog for operators',
  description:
    'Never expose this API on a public port. Requests need the admin token or the cookie of a signed-in operator. With a cookie, a ' +
    'change must come from a page of the console (otherwise 403). A `Host` that is not allowed is a 421, except for ' +
    'health and metrics.',
  token:
    'The admin token. After `npm start`, it is `adminToken` in `.data/dev-credentials.json`. `QUESTLOG_ADMIN_TOKEN` sets it.',
  operations: OPERATORS,
  schemas: [
    { ErasureInput: ShownErasureInput },
    ...[admin, audit, backup, clickhouse, deadLetter, erasure, exported, health, ledger, problem, report],
  ],
};
