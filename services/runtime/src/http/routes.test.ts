/** Tests the routes that derive from declarations of operations. */
import { Router } from '@koa/router';
import { GAMES } from '@questlog/schemas/http/operations/games';
import type { Operations } from '@questlog/schemas/http/operations/operation';
import { OPERATORS } from '@questlog/schemas/http/operations/operators';
import { answer, emptyAnswer } from '@questlog/schemas/http/operations/parts';
import Koa from 'koa';
import Type from 'typebox';
import { expect, onTestFinished, test } from 'vitest';
import { silentLogger } from '../process/logger.ts';
import { createMetricsRegistry } from '../process/metrics.ts';
import { httpMetrics } from './metrics.ts';
import { problems } from './problems.ts';
import { Rejected } from './rejected.ts';
import { addRoutes, isOnlyIn } from './routes.ts';

const TABLE = {
  createItem: {
    route: 'POST /items/{id}',
    access: 'events:write',
    summary: 'Creates an item.',
    body: Type.Object({ size: Type.Integer() }),
    responses: { 201: answer('The item.', Type.Object({})) },
  },
  removeItem: {
    route: 'DELETE /items/{id}',
    access: 'anyone',
    summary: 'Removes an item.',
    responses: { 204: emptyAnswer('The item is removed.') },
  },
} as const satisfies Operations;

test('a route authorizes the request before it reads the body, and checks the body before the handler', async () => {
  const ask = await listening();
  expect(await ask('POST', 'not JSON', 'wrong')).toEqual([401, 'unauthorized']);
  expect(await ask('POST', 'not JSON')).toEqual([400, 'invalid_json']);
  expect(await ask('POST', '{"size": "large"}')).toEqual([400, 'invalid_request']);
  expect(await ask('POST', '{"size": 3}')).toEqual([201, { id: '7', size: 3, caller: 'right events:write' }]);
});

test('a route sets the successful status, and ignores a wrong token if the operation is for anyone', async () => {
  expect(await (await listening())('DELETE', undefined, 'wrong')).toEqual([204, undefined]);
});

test('a missing handler and an unknown handler are type errors', () => {
  // @ts-expect-error: the handler of `removeItem` is missing.
  const missing: Parameters<typeof addRoutes<typeof TABLE>>[2] = { createItem: () => ({}) };
  // @ts-expect-error: the table has no operation `copyItem`.
  const unknown: typeof missing = { createItem: () => ({}), removeItem: () => {}, copyItem: () => {} };
  expect([missing, unknown]).toHaveLength(2);
});

test('only operations below /admin need the admin token, and each listener detects paths of the other', () => {
  const paths = Object.values<Operations[string]>(OPERATORS).map(({ route, access }) => [
    route,
    access === undefined,
  ]);
  expect(paths).toEqual(paths.map(([route]) => [route, String(route).includes(' /admin/')]));
  expect([isOnlyIn(OPERATORS, GAMES, '/admin/none'), isOnlyIn(GAMES, OPERATORS, '/v1/none')]).toEqual([
    true,
    true,
  ]);
  expect([isOnlyIn(OPERATORS, GAMES, '/openapi.json'), isOnlyIn(GAMES, OPERATORS, '/none')]).toEqual([
    false,
    false,
  ]);
});

async function listening() {
  const router = new Router();
  addRoutes<typeof TABLE, string>(
    router,
    TABLE,
    {
      createItem: (_, { params, body, caller }) => ({ ...params, ...body, caller }),
      removeItem: () => undefined,
    },
    (ctx, scope) => {
      if (ctx.get('Authorization') !== 'right') throw new Rejected('unauthorized', 'the token is wrong');
      return `right ${scope}`;
    },
  );
  const app = new Koa()
    .use(problems(silentLogger, httpMetrics(createMetricsRegistry())))
    .use(router.routes());
  const server = app.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  return async (method: string, body: string | undefined, token = 'right'): Promise<unknown[]> => {
    const headers = { Authorization: token, 'Content-Type': 'application/json', Connection: 'close' };
    const sent = { method, headers, ...(body !== undefined && { body }) };
    const response = await fetch(`http://127.0.0.1:${port}/items/7`, sent);
    const text = await response.text();
    const value = text === '' ? undefined : JSON.parse(text);
    return [response.status, value?.code ?? value];
  };
}
