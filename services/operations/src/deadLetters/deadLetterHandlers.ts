/** Handles the HTTP operations on dead letters. */
import { choiceFilter, textFilter, timeFilter } from '@questlog/runtime/http/core/listFilters';
import { readNewestFirst } from '@questlog/runtime/http/core/newestFirst';
import { firstQuery, type Handlers } from '@questlog/runtime/http/routes';
import { DEAD_LETTER_STATES } from '@questlog/schemas/http/deadLetter';
import type { OPERATORS } from '@questlog/schemas/http/operations/operators';
import { DEAD_LETTER_GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import type { DeadLetterFilters } from './deadLetterIndex.ts';
import type { DeadLetterAdmin } from './deadLetters.ts';

const MAX_CAUSE_CHARACTERS = 300;

type DeadLetterId = 'listDeadLetters' | 'getDeadLetter' | 'replayDeadLetter' | 'discardDeadLetter';

export function deadLetterHandlers(
  deadLetters: DeadLetterAdmin,
): Handlers<Pick<typeof OPERATORS, DeadLetterId>> {
  return {
    listDeadLetters: (ctx) => {
      const given = firstQuery(ctx);
      const page = readNewestFirst({ limit: given('limit'), cursor: given('cursor') });
      return deadLetters.page(filtersOf(given), page);
    },
    getDeadLetter: (_, { params }) => deadLetters.inspect(params.id),
    replayDeadLetter: (_, { params }) => deadLetters.replay(params.id),
    discardDeadLetter: (_, { params }) => deadLetters.discard(params.id),
  };
}

function filtersOf(given: (name: string) => string | undefined): DeadLetterFilters {
  const state = choiceFilter('state', given('state'), DEAD_LETTER_STATES);
  const millis = (name: string): number | undefined => {
    const micros = timeFilter(name, given(name));
    return micros === undefined ? undefined : Number(micros) / 1000;
  };
  return {
    state: DEAD_LETTER_STATES.find((one) => one === state) ?? 'open',
    group: choiceFilter('group', given('group'), DEAD_LETTER_GROUPS),
    topic: choiceFilter('topic', given('topic'), Object.values(TOPICS)),
    cause: textFilter('cause', given('cause'), MAX_CAUSE_CHARACTERS),
    fromMs: millis('from'),
    toMs: millis('to'),
  };
}
