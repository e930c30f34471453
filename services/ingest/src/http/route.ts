/** What both listeners share: unknown paths and methods as problems, and small JSON bodies checked by TypeBox. */
import type { RouterInstance } from '@koa/router';
import type { ElementProblem, ProblemCode } from '@questlog/schemas/http/problem';
import type { Middleware } from 'koa';
import bodyParser from 'koa-bodyparser';
import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { Rejected } from '../rejected.ts';

/** Behind the router: another method on a known path is a 405, an unknown path a 404. */
export function noRoute(router: RouterInstance): Middleware {
  return async (ctx) => {
    const methods = new Set(router.match(ctx.path, ctx.method).path.flatMap((layer) => layer.methods));
    if (methods.size === 0) throw new Rejected('not_found', `there is nothing at ${ctx.path}`);
    const allowed = [...methods].join(', ');
    throw new Rejected('method_not_allowed', `${ctx.method} is not one of ${allowed}`, {
      headers: { Allow: allowed },
    });
  };
}

const MAX_JSON_BYTES = 1024 * 1024;

/** koa-bodyparser for bodies that carry no payload. */
export function jsonBody(): Middleware {
  const parse = bodyParser({
    enableTypes: ['json'],
    jsonLimit: String(MAX_JSON_BYTES),
    strict: false,
    onerror: (error, ctx) => {
      // The parser stops reading where it refuses; unread, the rest would block the connection's next request.
      ctx.req.resume();
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
 * The body as the schema says; `null` in an optional field that takes no null is as if omitted.
 * @throws Rejected naming every bad field.
 */
export function checkedBody<T extends TSchema>(schema: T): (body: unknown) => Static<T> {
  const validator = Compile(schema);
  return (body) => {
    if (typeof body !== 'object' || body === null || Array.isArray(body)) {
      throw new Rejected('invalid_request', 'the body is an object');
    }
    const value = withoutNulls(schema, body);
    if (validator.Check(value)) return validator.Parse(value);
    const errors = validator.Errors(value).flatMap(fieldProblems);
    const [first] = errors;
    throw new Rejected('invalid_request', first?.detail ?? 'the body is not valid', {
      errors: onePerPointer(errors),
    });
  };
}

function withoutNulls(schema: TSchema, body: object): Record<string, unknown> {
  const properties: unknown = Reflect.get(schema, 'properties');
  const takesNull = (name: string): boolean => {
    const property: unknown =
      typeof properties === 'object' && properties !== null ? Reflect.get(properties, name) : {};
    return typeof property === 'object' && property !== null && 'anyOf' in property;
  };
  return Object.fromEntries(
    Object.entries(body).filter(([name, value]) => value !== null || takesNull(name)),
  );
}

interface SchemaError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: object;
  readonly message: string;
}

function fieldProblems(error: SchemaError): ElementProblem[] {
  const required: unknown = Reflect.get(error.params, 'requiredProperties');
  if (error.keyword === 'required' && Array.isArray(required)) {
    return required.map((field) => problem(`/${field}`, 'field_required', `${field} is required`));
  }
  const field = error.instancePath.slice(1);
  const schemaSaysUuid = error.keyword === 'format' || error.keyword === 'pattern';
  if (schemaSaysUuid) return [problem(error.instancePath, 'invalid_uuid', `${field} must be a UUID`)];
  const allowed: unknown = Reflect.get(error.params, 'allowedValues');
  if (Array.isArray(allowed)) {
    return [problem(error.instancePath, 'field_invalid', `${field} must be one of ${allowed.join(', ')}`)];
  }
  const code = error.keyword === 'type' ? 'field_type' : 'field_invalid';
  return [problem(error.instancePath, code, `${field} ${error.message}`)];
}

function problem(pointer: string, code: ProblemCode, detail: string): ElementProblem {
  return { index: 0, pointer, code, detail };
}

function onePerPointer(errors: readonly ElementProblem[]): ElementProblem[] {
  return [...new Map(errors.toReversed().map((error) => [error.pointer, error])).values()].toReversed();
}
