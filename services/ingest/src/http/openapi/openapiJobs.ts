/** The operations of what is asked for and takes its time, erasures and backups, for the document of the operators' listener. */
import { answer, id, problem, ref } from './openapiParts.ts';

/** @param written what every operation with a body has. */
export function erasurePaths(
  written: (summary: string, input: string, responses: object) => object,
  commonResponses: object,
): Record<string, object> {
  const operation = written(
    'Erases a session, a player, a project or a tenant: from ClickHouse, the uploads and the dead letters.',
    'ErasureInput',
    {
      202: answer(
        'It is in the log, and does not come back: not by a replay, a late retry or a new projection.',
        'Erasure',
      ),
      404: problem('There is no such tenant, or the project is not its own.'),
    },
  );
  return {
    '/admin/erasures': {
      get: {
        summary: 'The newest 1,000 erasures, the newest first.',
        responses: {
          200: answer('All of them.', { type: 'array', items: ref('Erasure') }),
          ...commonResponses,
        },
      },
      post: {
        ...operation,
        description:
          'Counts stay: the quota, `event_counts_by_minute` and the ledger. The log is not rewritten; what it has is not read back, and expires.',
      },
    },
    '/admin/erasures/{id}': {
      get: {
        summary: 'How far an erasure is, with its receipt.',
        parameters: [id],
        responses: {
          200: answer('As it is now.', 'Erasure'),
          404: problem('The id does not exist.'),
          ...commonResponses,
        },
      },
    },
  };
}

const NOT_EMBEDDED = problem('The log or ClickHouse is not embedded: back up what it is with its own tools.');

/** @param commonResponses what every operation may answer. */
export function backupPaths(commonResponses: object): Record<string, object> {
  const list = { type: 'array', items: ref('Backup') };
  return {
    '/admin/backups': {
      get: {
        summary:
          'The backups of the folder that `QUESTLOG_BACKUP_DIR` names, what runs, and what failed since the start.',
        responses: {
          200: answer('The newest first.', {
            ...{ type: 'object', required: ['into', 'backups'] },
            properties: { into: { type: 'string' }, backups: list },
          }),
          501: NOT_EMBEDDED,
          ...commonResponses,
        },
      },
      post: {
        summary: 'Begins a backup of all that Questlog keeps on embedded engines, while it runs.',
        responses: {
          202: answer('It is being made: `GET /admin/backups` shows it.', 'Backup'),
          409: problem('One is being made already.'),
          501: NOT_EMBEDDED,
          ...commonResponses,
        },
      },
    },
  };
}
