/** Adds the declared operations of a listener to its router. */
import type { RouterContext, RouterInstance } from '@koa/router';
import {
  type BodyOf,
  hasScope,
  type Operation,
  type Operations,
  type PathParameter,
  routeOf,
} from '@questlog/schemas/http/operations/operation';
import type { Scope } from '@questlog/schemas/topics/directoryEntry';
import { checkedBody, jsonBody } from './route.ts';

export interface Request<O extends Operation, Caller> {
  readonly params: Readonly<Record<PathParameter<O['route']>, string>>;
  readonly body: BodyOf<O>;
  /** Caller that `authorize` returned. Undefined if the operation requires no scope. */
  readonly caller: O['access'] extends Scope ? Caller : undefined;
}

/** Handles an operation and returns the response's body. Undefined if there is no body or the handler sends the response. */
type Handler<O extends Operation, Caller> = (ctx: RouterContext, request: Request<O, Caller>) => unknown;

export type Handlers<T extends Operations, Caller = undefined> = {
  readonly [Id in keyof T]: Handler<T[Id], Caller>;
};

/** Authenticates a request and checks the scope. @throws Rejected */
export type AuthorizeRequest<Caller> = (ctx: RouterContext, scope: Scope) => Caller;

/**
 * Adds a route for each operation. A route authorizes the request, parses and checks the body, and calls the handler. If the
 * operation has exactly one successful status, the route sets the status. If the response has a body, the route sets its media type.
 */
export function addRoutes<T extends Operations, Caller = undefined>(
  router: RouterInstance,
  operations: T,
  handlers: Handlers<T, Caller>,
  authorize: AuthorizeRequest<Caller> = rejectScopes,
): void {
  for (const [id, operation] of Object.entries<Operation>(operations)) {
    const { method } = routeOf(operation);
    const { access, body, bodyMode } = operation;
    const handle = handlers[id] as Handler<Operation, Caller>;
    const parse = body === undefined || bodyMode === 'unread' ? undefined : jsonBody();
    const check = parse && bodyMode !== 'unchecked' && body && checkedBody(body, bodyMode === 'exact');
    const [status, ...others] = Object.keys(operation.responses).filter((each) => each < '300');
    router.register(koaPath(operation), [method], async (ctx) => {
      const caller = hasScope(access) ? authorize(ctx, access) : undefined;
      await parse?.(ctx, async () => {});
      const checked: unknown = check ? check(ctx.request.body) : ctx.request.body;
      const result = await handle(ctx, { params: ctx.params, body: checked, caller } as never);
      if (others.length === 0 && status !== '200') ctx.status = Number(status);
      if (result === undefined) return;
      ctx.body = result;
      const answer = operation.responses[ctx.status];
      if (typeof answer === 'object') ctx.type = answer.type;
    });
  }
}

function rejectScopes(): never {
  throw new Error('operations with a scope need a function that authorizes their requests');
}

/** Returns the path of an operation in the syntax of Koa's router. */
export function koaPath(operation: Pick<Operation, 'route'>): string {
  return routeOf(operation).path.replaceAll(/\{(\w+)\}/g, ':$1');
}

/** Returns the query parameters. If a parameter is repeated, the first value counts. */
export function firstQuery({ querystring }: RouterContext): (name: string) => string | undefined {
  const query = new URLSearchParams(querystring);
  return (name) => query.get(name) ?? undefined;
}

/** True if the first segment of the path occurs in operations of the other listener, but not in operations of this listener. */
export function isOnlyIn(other: Operations, own: Operations, path: string): boolean {
  const segmentsOf = (table: Operations) =>
    Object.values(table).map((one) => firstSegment(routeOf(one).path));
  const segment = firstSegment(path);
  return segmentsOf(other).includes(segment) && !segmentsOf(own).includes(segment);
}

function firstSegment(path: string): string | undefined {
  return path.split('/')[1];
}
