/** The operations of `/admin/backups`, for the document of the operators' listener. */
import { answer, problem, ref } from './openapiParts.ts';

const NOT_HERE = problem('The log or ClickHouse is not embedded: back up what it is with its own tools.');

/** @param refused what every operation may answer. */
export function backupPaths(refused: object): Record<string, object> {
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
          501: NOT_HERE,
          ...refused,
        },
      },
      post: {
        summary: 'Begins a backup of all that Questlog keeps on embedded engines, while it runs.',
        responses: {
          202: answer('It is being made: `GET /admin/backups` shows it.', 'Backup'),
          409: problem('One is being made already.'),
          501: NOT_HERE,
          ...refused,
        },
      },
    },
  };
}
