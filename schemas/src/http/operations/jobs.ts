/** Operations on dead letters, erasures, exports, and backups. */
import Type from 'typebox';
import { Backup } from '../../backups/backup.ts';
import { DEAD_LETTER_GROUPS, TOPICS } from '../../topics/topics.ts';
import {
  DEAD_LETTER_STATES,
  DeadLetterPage,
  InspectedDeadLetter,
  ReplayedDeadLetter,
} from '../deadLetter.ts';
import { ErasureInput, ErasureOutput } from '../erasure.ts';
import { ExportInput, ExportOutput } from '../export.ts';
import type { Operations } from './operation.ts';
import { answer, BAD_LIST, emptyAnswer, NOT_THERE, PAGE, query, TIME } from './parts.ts';

/** Excludes requests with both `sessionId` and `player`, because the scope of such a request would be ambiguous. */
export const ShownErasureInput = {
  ...ErasureInput,
  not: { properties: { sessionId: {}, player: {} }, required: ['sessionId', 'player'] },
};

export const JOBS = {
  listDeadLetters: {
    route: 'GET /admin/dead-letters',
    summary:
      'Lists records that a consumer could not process, the newest first. Only the newest 50,000 are available.',
    parameters: [
      query('state', { enum: [...DEAD_LETTER_STATES], default: 'open' }, 'Only dead letters in this state.'),
      query('group', { enum: DEAD_LETTER_GROUPS }, 'Only dead letters of this consumer group.'),
      query('topic', { enum: Object.values(TOPICS) }, 'Only dead letters from this topic.'),
      query(
        'cause',
        { type: 'string', minLength: 1, maxLength: 300 },
        'Only dead letters with this text in the first 300 characters of their reason.',
      ),
      query('from', TIME, 'Only dead letters that were written at or after this time.'),
      query('to', TIME, 'Only dead letters that were written before this time.'),
      ...PAGE,
    ],
    responses: { 200: answer('The dead letters, without their values.', DeadLetterPage), 400: BAD_LIST },
  },
  getDeadLetter: {
    route: 'GET /admin/dead-letters/{id}',
    summary: 'Returns a dead letter with its headers and its value. The value is decoded if possible.',
    responses: { 200: answer('The dead letter.', InspectedDeadLetter), 404: NOT_THERE },
  },
  discardDeadLetter: {
    route: 'DELETE /admin/dead-letters/{id}',
    summary: 'Discards a dead letter. It is no longer open, and stays until it expires.',
    responses: {
      204: emptyAnswer('The dead letter is discarded.'),
      404: NOT_THERE,
      409: 'The dead letter was already replayed.',
    },
  },
  replayDeadLetter: {
    route: 'POST /admin/dead-letters/{id}/replay',
    summary:
      'Appends the unchanged record of a dead letter to its source partition again. Consumers that have already processed the record ignore it, so it counts once.',
    responses: {
      200: answer(
        'The new position of the record. If the record fails again, it becomes a new dead letter.',
        ReplayedDeadLetter,
      ),
      404: NOT_THERE,
      409: 'The dead letter was already replayed or discarded.',
      422: 'The bytes of the record are not stored, or its topic does not accept them. The detail has the reason.',
    },
  },
  listErasures: {
    route: 'GET /admin/erasures',
    summary: 'Lists the newest 1,000 erasures, the newest first.',
    responses: { 200: answer('The erasures.', Type.Array(ErasureOutput)) },
  },
  createErasure: {
    route: 'POST /admin/erasures',
    summary:
      'Erases the data of a session, player, project, or tenant from ClickHouse, the uploads, and the dead letters.',
    description:
      'The counts of the quota, of `event_counts_by_minute`, and of the ledger stay. The log is not rewritten. Erased data in the log is not read again, and expires.',
    body: ErasureInput,
    // To erase the whole project, a request omits the session id. A null session id is rejected, because it can come from a
    // failed lookup.
    bodyMode: 'exact',
    shownBody: ShownErasureInput,
    responses: {
      202: answer(
        'The erasure is in the log. The erased data cannot be restored by a replay, a late retry, or a new projection.',
        ErasureOutput,
      ),
      404: 'The tenant does not exist, or the project does not belong to the tenant.',
    },
  },
  getErasure: {
    route: 'GET /admin/erasures/{id}',
    summary: 'Returns the state of an erasure, with its receipt.',
    responses: { 200: answer('The erasure.', ErasureOutput), 404: NOT_THERE },
  },
  listExports: {
    route: 'GET /admin/exports',
    summary: 'Lists the exports that `POST /admin/exports` created.',
    responses: { 200: answer('The exports.', Type.Array(ExportOutput)) },
  },
  createExport: {
    route: 'POST /admin/exports',
    summary: 'Exports the rows of a project to an S3 bucket, once or on a schedule.',
    description:
      'Each run adds files with the new rows, and finally writes `manifest.json`. After an erasure, the next run rewrites the files that contained the erased rows.',
    body: ExportInput,
    responses: {
      202: answer('The export starts within seconds.', ExportOutput),
      404: 'The project does not exist.',
      409: 'Another export has the same folder.',
    },
  },
  getExport: {
    route: 'GET /admin/exports/{id}',
    summary: 'Returns the state of an export.',
    responses: { 200: answer('The export.', ExportOutput), 404: NOT_THERE },
  },
  deleteExport: {
    route: 'DELETE /admin/exports/{id}',
    summary:
      'Ends an export and its schedule. The files stay in the bucket, and later erasures do not rewrite them.',
    parameters: [
      query(
        'force',
        { enum: ['true', 'false'], default: 'false' },
        '`true`: deletes the export even if its files can contain erased rows, for example if the bucket no longer exists. The receipts of the erasures name the folder.',
      ),
    ],
    responses: {
      204: emptyAnswer('The export has ended.'),
      400: BAD_LIST,
      404: NOT_THERE,
      409: 'The files of the export can still contain erased rows.',
    },
  },
} as const satisfies Operations;

const NOT_EMBEDDED = 'The log or ClickHouse is not embedded. Back it up with its own tools.';

export const BACKUPS = {
  listBackups: {
    route: 'GET /admin/backups',
    summary:
      'Lists the backups in the folder `QUESTLOG_BACKUP_DIR`, running backups, and backups that failed since the start.',
    responses: {
      200: answer(
        'The backups, the newest first.',
        Type.Object({ into: Type.String(), backups: Type.Array(Backup) }),
      ),
      501: NOT_EMBEDDED,
    },
  },
  createBackup: {
    route: 'POST /admin/backups',
    summary: 'Starts a backup of all data on embedded engines. Questlog continues to run.',
    responses: {
      202: answer('The backup is running. `GET /admin/backups` shows its progress.', Backup),
      409: 'A backup is already running.',
      501: NOT_EMBEDDED,
    },
  },
} as const satisfies Operations;
