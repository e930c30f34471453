/** Responds to unknown paths and methods, and checks small JSON bodies. Both listeners use this module. */
import type { RouterInstance } from '@koa/router';
import type { Middleware, ParameterizedContext } from 'koa';
import bodyParser from 'koa-bodyparser';
import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { nearestName } from '../process/nearestName.ts';
import { fieldProblems } from './core/fieldProblems.ts';
import { Rejected } from './rejected.ts';

export interface NoRouteOptions {
  /** Returns a hint if the path belongs to the other listener, which has a different port. */
  readonly otherListenerHint?: (path: string) => string | undefined;
  /**
   * Runs before a 404 or 405 is thrown. If the path has a route for another method, `endpoint` is the request's method and the
   * template of the path.
   */
  readonly onNoRoute?: (ctx: ParameterizedContext, endpoint: string | undefined) => void;
}

/** Responds with 404 to an unknown path and with 405 to a wrong method. Suggests a similar endpoint. */
export function noRoute(
  router: RouterInstance,
  { otherListenerHint = () => undefined, onNoRoute = () => undefined }: NoRouteOptions = {},
): Middleware {
  const endpoints = router.stack
    .map(({ path, methods }) => ({ path: String(path), methods }))
    .filter(({ path }) => !path.includes(':'));
  return async (ctx) => {
    const { method, path } = ctx;
    const layer = router.match(path, method).path[0];
    onNoRoute(ctx, layer && `${method} ${String(layer.path)}`);
    const suggestion = similarEndpoint(endpoints, method, path);
    const hint =
      otherListenerHint(path) ?? (suggestion === undefined ? undefined : `is ${suggestion} meant?`);
    const suffix = hint === undefined ? '' : `; ${hint}`;
    if (layer === undefined) throw new Rejected('not_found', `there is nothing at ${path}${suffix}`);
    const allowed = [...methodsAt(router, path)].join(', ');
    throw new Rejected('method_not_allowed', `${method} is not one of ${allowed}${suffix}`, {
      headers: { Allow: allowed },
    });
  };
}

interface Endpoint {
  readonly path: string;
  readonly methods: readonly string[];
}

/** Returns the method and path of the most similar endpoint. If no path is similar, compares only the last segments. */
function similarEndpoint(endpoints: readonly Endpoint[], method: string, path: string): string | undefined {
  const paths = endpoints.filter(({ methods }) => methods.includes(method)).map((each) => each.path);
  const similar = nearestName(path, paths, MAX_EDITS);
  if (similar !== undefined) return `${method} ${similar}`;
  const last = nearestName(lastSegment(path), paths.map(lastSegment), MAX_EDITS);
  const suggestion = last && paths.find((each) => lastSegment(each) === last);
  return suggestion && `${method} ${suggestion}`;
}

function lastSegment(path: string): string {
  return path.split('/').findLast((segment) => segment !== '') ?? '';
}

const MAX_EDITS = 2;

export function methodsAt(router: RouterInstance, path: string): ReadonlySet<string> {
  return new Set(router.match(path, 'GET').path.flatMap((layer) => layer.methods));
}

const MAX_JSON_BYTES = 1024 * 1024;

export function jsonBody(): Middleware {
  const parse = bodyParser({
    enableTypes: ['json'],
    jsonLimit: String(MAX_JSON_BYTES),
    strict: false,
    // Accepts `__proto__` as a field name. By default, co-body reports `__proto__` as invalid JSON.
    ...{ onProtoPoisoning: 'ignore' },
    onerror: (error) => {
      const status: unknown = Reflect.get(error, 'status');
      if (status === 413)
        throw new Rejected('body_too_large', `a body may have at most ${MAX_JSON_BYTES} bytes here`);
      if (status === 415) throw new Rejected('unsupported_encoding', 'the Content-Encoding is not supported');
      throw new Rejected('invalid_json', 'the body is not valid JSON', { cause: error });
    },
  });
  return async (ctx, next) => {
    if (!ctx.is('application/json')) {
      throw new Rejected('unsupported_media_type', 'the Content-Type must be application/json');
    }
    await parse(ctx, next);
  };
}

/** Returns a function that checks a body and throws Rejected. Null counts as an omitted field unless `isExact` is true. */
export function checkedBody<T extends TSchema>(schema: T, isExact = false): (body: unknown) => Static<T> {
  const validator = Compile(schema);
  return (body) => {
    if (typeof body !== 'object' || body === null || Array.isArray(body)) {
      throw new Rejected('invalid_request', 'the body must be an object');
    }
    const value = isExact ? body : omitNulls(schema, body);
    if (validator.Check(value)) return validator.Parse(value);
    const errors = fieldProblems(validator, value);
    throw new Rejected('invalid_request', errors[0]?.detail ?? 'the body is not valid', { errors });
  };
}

function omitNulls(schema: TSchema, body: object): Record<string, unknown> {
  const properties: unknown = Reflect.get(schema, 'properties');
  const acceptsNull = (name: string): boolean => {
    if (typeof properties !== 'object' || properties === null) return false;
    const property: unknown = Object.hasOwn(properties, name) ? Reflect.get(properties, name) : undefined;
    return typeof property !== 'object' || property === null || 'anyOf' in property;
  };
  return Object.fromEntries(
    Object.entries(body).filter(([name, value]) => value !== null || acceptsNull(name)),
  );
}
