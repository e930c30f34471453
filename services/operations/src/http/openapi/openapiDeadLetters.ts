/** OpenAPI operations of `/admin/dead-letters`. */

import { answer, filter, id, PAGE, problem, TIME } from '@questlog/runtime/http/openapi/openapiParts';
import { DEAD_LETTER_STATES } from '@questlog/schemas/http/deadLetter';
import { DEAD_LETTER_GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { ADMIN_RESPONSES, NOT_THERE } from './openapiAdminParts.ts';

export function deadLetterPaths(): Record<string, object> {
  return {
    '/admin/dead-letters': { get: listOperation() },
    '/admin/dead-letters/{id}': deadLetterOperations(),
    '/admin/dead-letters/{id}/replay': { post: replayOperation() },
  };
}

function listOperation(): object {
  return {
    operationId: 'listDeadLetters',
    summary:
      'Lists records that a consumer could not process, the newest first. Only the newest 50,000 are available.',
    parameters: [
      filter('state', 'Only dead letters in this state.', {
        enum: [...DEAD_LETTER_STATES],
        default: 'open',
      }),
      filter('group', 'Only dead letters of this consumer group.', { enum: DEAD_LETTER_GROUPS }),
      filter('topic', 'Only dead letters from this topic.', { enum: Object.values(TOPICS) }),
      filter('cause', 'Only dead letters with this text in the first 300 characters of their reason.', {
        ...{ type: 'string', minLength: 1, maxLength: 300 },
      }),
      filter('from', 'Only dead letters that were written at or after this time.', TIME),
      filter('to', 'Only dead letters that were written before this time.', TIME),
      ...PAGE,
    ],
    responses: {
      200: answer('The dead letters, without their values.', 'DeadLetters'),
      400: problem('A parameter is not valid. The detail names the parameter and its valid values.'),
      ...ADMIN_RESPONSES,
    },
  };
}

function deadLetterOperations(): object {
  return {
    get: {
      operationId: 'getDeadLetter',
      summary: 'Returns a dead letter with its headers and its value. The value is decoded if possible.',
      parameters: [id],
      responses: { 200: answer('The dead letter.', 'DeadLetter'), 404: NOT_THERE, ...ADMIN_RESPONSES },
    },
    delete: {
      operationId: 'discardDeadLetter',
      summary: 'Discards a dead letter. It is no longer open, and stays until it expires.',
      parameters: [id],
      responses: {
        204: { description: 'The dead letter is discarded.' },
        404: NOT_THERE,
        409: problem('The dead letter was already replayed.'),
        ...ADMIN_RESPONSES,
      },
    },
  };
}

function replayOperation(): object {
  return {
    operationId: 'replayDeadLetter',
    summary:
      'Appends the unchanged record of a dead letter to its source partition again. Consumers that have already processed the record ignore it, so it counts once.',
    parameters: [id],
    responses: {
      200: answer(
        'The new position of the record. If the record fails again, it becomes a new dead letter.',
        'Replayed',
      ),
      404: NOT_THERE,
      409: problem('The dead letter was already replayed or discarded.'),
      422: problem(
        'The bytes of the record are not stored, or its topic does not accept them. The detail has the reason.',
      ),
      ...ADMIN_RESPONSES,
    },
  };
}
