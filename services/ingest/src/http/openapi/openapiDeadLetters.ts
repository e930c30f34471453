/** The operations of `/admin/dead-letters`, for the document of the operators' listener. */
import { DEAD_LETTER_STATES } from '@questlog/schemas/http/deadLetter';
import { DEAD_LETTER_GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { answer, filter, id, PAGE, problem, TIME } from './openapiParts.ts';

const NOT_THERE = problem('The id does not exist.');

/** @param commonResponses what every operation may answer. */
export function deadLetterPaths(commonResponses: object): Record<string, object> {
  return {
    '/admin/dead-letters': { get: listOperation(commonResponses) },
    '/admin/dead-letters/{id}': deadLetterOperations(commonResponses),
    '/admin/dead-letters/{id}/replay': { post: replayOperation(commonResponses) },
  };
}

function listOperation(commonResponses: object): object {
  return {
    summary: 'Records that a consumer could not process, the newest first; of the newest 50,000.',
    parameters: [
      filter('state', 'Unless given, those that wait for a decision.', {
        enum: [...DEAD_LETTER_STATES],
        default: 'open',
      }),
      filter('group', 'Of this consumer group.', { enum: DEAD_LETTER_GROUPS }),
      filter('topic', 'From this topic.', { enum: Object.values(TOPICS) }),
      filter('cause', 'With this in the first 300 characters of the reason.', {
        ...{ type: 'string', minLength: 1, maxLength: 300 },
      }),
      filter('from', 'Dead from this time on.', TIME),
      filter('to', 'Dead before this time.', TIME),
      ...PAGE,
    ],
    responses: {
      200: answer('Without their values.', 'DeadLetters'),
      400: problem('A parameter is not valid: the detail names it and what it may be.'),
      ...commonResponses,
    },
  };
}

function deadLetterOperations(commonResponses: object): object {
  return {
    get: {
      summary: 'A dead letter with its headers and its value, decoded where that can be.',
      parameters: [id],
      responses: { 200: answer('The letter.', 'DeadLetter'), 404: NOT_THERE, ...commonResponses },
    },
    delete: {
      summary: 'Discards a dead letter: it is not open any more, and stays until it expires.',
      parameters: [id],
      responses: {
        204: { description: 'It is discarded, now or before.' },
        404: NOT_THERE,
        409: problem('It was replayed.'),
        ...commonResponses,
      },
    },
  };
}

function replayOperation(commonResponses: object): object {
  return {
    summary:
      'Appends the record of a dead letter again, as it was, where it stood. Whoever has processed it drops it, so it counts once.',
    parameters: [id],
    responses: {
      200: answer('Where it stands now. If it is still at fault, it is a new dead letter.', 'Replayed'),
      404: NOT_THERE,
      409: problem('It was replayed or discarded before.'),
      422: problem('Its bytes are not kept, or its topic does not take them: the detail says why.'),
      ...commonResponses,
    },
  };
}
