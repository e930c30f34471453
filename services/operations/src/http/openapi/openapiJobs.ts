/** OpenAPI operations of erasures and backups. */

import { answer, id, problem, ref } from '@questlog/runtime/http/openapi/openapiParts';
import { ADMIN_RESPONSES, NOT_THERE, written } from './openapiAdminParts.ts';

export function erasurePaths(): Record<string, object> {
  const operation = written(
    'createErasure',
    'Erases the data of a session, player, project, or tenant from ClickHouse, the uploads, and the dead letters.',
    'ErasureInput',
    {
      202: answer(
        'The erasure is in the log. The erased data cannot be restored by a replay, a late retry, or a new projection.',
        'Erasure',
      ),
      404: problem('The tenant does not exist, or the project does not belong to the tenant.'),
    },
  );
  return {
    '/admin/erasures': {
      get: {
        operationId: 'listErasures',
        summary: 'Lists the newest 1,000 erasures, the newest first.',
        responses: {
          200: answer('The erasures.', { type: 'array', items: ref('Erasure') }),
          ...ADMIN_RESPONSES,
        },
      },
      post: {
        ...operation,
        description:
          'The counts of the quota, of `event_counts_by_minute`, and of the ledger stay. The log is not rewritten. Erased data in the log is not read again, and expires.',
      },
    },
    '/admin/erasures/{id}': {
      get: {
        operationId: 'getErasure',
        summary: 'Returns the state of an erasure, with its receipt.',
        parameters: [id],
        responses: {
          200: answer('The erasure.', 'Erasure'),
          404: NOT_THERE,
          ...ADMIN_RESPONSES,
        },
      },
    },
  };
}

const NOT_EMBEDDED = problem('The log or ClickHouse is not embedded. Back it up with its own tools.');

export function backupPaths(): Record<string, object> {
  const list = { type: 'array', items: ref('Backup') };
  return {
    '/admin/backups': {
      get: {
        operationId: 'listBackups',
        summary:
          'Lists the backups in the folder `QUESTLOG_BACKUP_DIR`, running backups, and backups that failed since the start.',
        responses: {
          200: answer('The backups, the newest first.', {
            ...{ type: 'object', required: ['into', 'backups'] },
            properties: { into: { type: 'string' }, backups: list },
          }),
          501: NOT_EMBEDDED,
          ...ADMIN_RESPONSES,
        },
      },
      post: {
        operationId: 'createBackup',
        summary: 'Starts a backup of all data on embedded engines. Questlog continues to run.',
        responses: {
          202: answer('The backup is running. `GET /admin/backups` shows its progress.', 'Backup'),
          409: problem('A backup is already running.'),
          501: NOT_EMBEDDED,
          ...ADMIN_RESPONSES,
        },
      },
    },
  };
}
