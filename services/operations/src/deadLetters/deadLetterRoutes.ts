/** Defines the routes below `/admin/dead-letters`. */
import type { RouterInstance } from '@koa/router';
import { choiceFilter, textFilter, timeFilter } from '@questlog/runtime/http/core/listFilters';
import { readNewestFirst } from '@questlog/runtime/http/core/newestFirst';
import { DEAD_LETTER_STATES } from '@questlog/schemas/http/deadLetter';
import { DEAD_LETTER_GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import type { DeadLetterFilters } from './deadLetterIndex.ts';
import type { DeadLetterAdmin } from './deadLetters.ts';

const MAX_CAUSE_CHARACTERS = 300;

export function deadLetterRoutes(router: RouterInstance, deadLetters: DeadLetterAdmin): void {
  router.get('/admin/dead-letters', async (ctx) => {
    const query = new URLSearchParams(ctx.querystring);
    const given = (name: string): string | undefined => query.get(name) ?? undefined;
    const page = readNewestFirst({ limit: given('limit'), cursor: given('cursor') });
    ctx.body = await deadLetters.page(filtersOf(given), page);
  });
  router.get('/admin/dead-letters/:id', async (ctx) => {
    ctx.body = await deadLetters.inspect(ctx.params['id'] ?? '');
  });
  router.post('/admin/dead-letters/:id/replay', async (ctx) => {
    ctx.body = await deadLetters.replay(ctx.params['id'] ?? '');
  });
  router.delete('/admin/dead-letters/:id', async (ctx) => {
    await deadLetters.discard(ctx.params['id'] ?? '');
    ctx.status = 204;
  });
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
