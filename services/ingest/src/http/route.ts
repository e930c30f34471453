/** What both listeners share: unknown paths and methods as problems, small JSON bodies checked by TypeBox. */
import type { RouterInstance } from '@koa/router';
import { nearestName } from '@questlog/runtime/process/nearMiss';
import type { Middleware } from 'koa';
import bodyParser from 'koa-bodyparser';
import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { fieldProblems } from '../core/fieldProblems.ts';
import { Rejected } from '../rejected.ts';

/**
 * Stands behind the router. Another method on a known path is a 405, an unknown path a 404.
 * @param elsewhere where a path is that the other listener has.
 */
export function noRoute(
  router: RouterInstance,
  elsewhere: (path: string) => string | undefined = () => undefined,
): Middleware {
  const known = router.stack.map(({ path }) => String(path)).filter((path) => !path.includes(':'));
  return async (ctx) => {
    const methods = methodsAt(router, ctx.path);
    if (methods.size === 0) {
      const meant = nearestName(ctx.path, known, MAX_EDITS);
      const hint = elsewhere(ctx.path) ?? (meant && `is ${meant} meant?`);
      throw new Rejected(
        'not_found',
        `there is nothing at ${ctx.path}${hint === undefined ? '' : `; ${hint}`}`,
      );
    }
    const allowed = [...methods].join(', ');
    throw new Rejected('method_not_allowed', `${ctx.method} is not one of ${allowed}`, {
      headers: { Allow: allowed },
    });
  };
}

/** Of a path that somebody meant. */
const MAX_EDITS = 2;

/** Those that a path has; none where it is unknown. */
export function methodsAt(router: RouterInstance, path: string): ReadonlySet<string> {
  return new Set(router.match(path, 'GET').path.flatMap((layer) => layer.methods));
}

const MAX_JSON_BYTES = 1024 * 1024;

/** koa-bodyparser for bodies that carry no payload. */
export function jsonBody(): Middleware {
  const parse = bodyParser({
    enableTypes: ['json'],
    jsonLimit: String(MAX_JSON_BYTES),
    strict: false,
    // co-body would take a body with `__proto__` for no JSON. Here it is a field like any other that nobody knows.
    ...{ onProtoPoisoning: 'ignore' },
    onerror: (error) => {
      const status: unknown = Reflect.get(error, 'status');
      if (status === 413)
        throw new Rejected('body_too_large', `a body takes at most ${MAX_JSON_BYTES} bytes here`);
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

/**
 * The body as the schema says; `null` in a field of it that takes no null is as if omitted, unless the schema is asked alone.
 * @throws Rejected naming every bad field.
 */
export function checkedBody<T extends TSchema>(
  schema: T,
  { isToTheLetter = false } = {},
): (body: unknown) => Static<T> {
  const validator = Compile(schema);
  return (body) => {
    if (typeof body !== 'object' || body === null || Array.isArray(body)) {
      throw new Rejected('invalid_request', 'the body is an object');
    }
    const value = isToTheLetter ? body : withoutNulls(schema, body);
    if (validator.Check(value)) return validator.Parse(value);
    const errors = fieldProblems(validator.Errors(value));
    throw new Rejected('invalid_request', errors[0]?.detail ?? 'the body is not valid', { errors });
  };
}

function withoutNulls(schema: TSchema, body: object): Record<string, unknown> {
  const properties: unknown = Reflect.get(schema, 'properties');
  const takesNull = (name: string): boolean => {
    if (typeof properties !== 'object' || properties === null) return false;
    const property: unknown = Object.hasOwn(properties, name) ? Reflect.get(properties, name) : undefined;
    return typeof property !== 'object' || property === null || 'anyOf' in property;
  };
  return Object.fromEntries(
    Object.entries(body).filter(([name, value]) => value !== null || takesNull(name)),
  );
}
