/** Writes an audit record before and after each change. If the process crashes during a change, the first record remains. */
import { randomUUID } from 'node:crypto';
import type { RouterInstance } from '@koa/router';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import { Rejected } from '@questlog/runtime/http/rejected';
import { jsonBody } from '@questlog/runtime/http/route';
import { koaPath } from '@questlog/runtime/http/routes';
import { RecordTooLarge } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import { OPERATORS } from '@questlog/schemas/http/operations/operators';
import { type ProblemCode, statusOf } from '@questlog/schemas/http/problem';
import type { AuditEntry } from '@questlog/schemas/topics/auditEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';
import type { Context, Middleware } from 'koa';
import type { OperationsContext } from '../context.ts';
import { auditCaller, type MatchedRoute, routeOf } from './auditCaller.ts';
import { redactedText, redactedWord } from './core/redacted.ts';

export type ChangeContext = Pick<OperationsContext, 'directory' | 'clock' | 'adminToken'>;
export type AppendAudit = (...entries: readonly AuditEntry[]) => Promise<void>;

/** POST routes without an audit. These routes change nothing, and must work even if the log is unavailable. */
const READ_ONLY_ROUTES = [
  OPERATORS.runSql,
  OPERATORS.verify,
  OPERATORS.planExport,
  OPERATORS.readExportChunk,
].map(koaPath);
/** Routes that change the entity with the id `:id` in the directory of tenants, projects, tokens, readers, and exports. */
const CHANGES_ONE_RECORD = /^\/admin\/\w+\/:id(?:\/rotate|\/switches)?$/;
const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS'];
const MAX_TARGET = 200;

export function auditChanges(
  context: ChangeContext,
  router: RouterInstance,
  append: AppendAudit,
): Middleware {
  const parse = jsonBody();
  const mutex = new KeyedMutex();
  return async (ctx, next) => {
    const route = SAFE_METHODS.includes(ctx.method) ? undefined : routeOf(router, ctx);
    if (route === undefined || READ_ONLY_ROUTES.includes(route.pattern)) return await next();
    // Parses the body for the audit record. The route does not parse the body again.
    if (ctx.is('application/json')) await parse(ctx, async () => {});
    ctx.state['isAudited'] = true;
    const id = canonicalUuid(route.params['id'] ?? '');
    // Runs the changes of one entity one after the other, so that an audit record shows only the effect of its own change.
    const changed = CHANGES_ONE_RECORD.test(route.pattern) ? id : undefined;
    await mutex.run(changed ?? randomUUID(), async () => {
      const change = await startChange(context, ctx, route, id);
      await append(change.asked);
      const failed = await next().then(
        () => undefined,
        (error: unknown) => ({ error, code: codeOf(error) }),
      );
      try {
        await append(await change.answered(failed?.code));
      } catch (error) {
        throw failed === undefined ? error : failed.error;
      }
      if (failed !== undefined) throw failed.error;
    });
  };
}

async function startChange(
  context: ChangeContext,
  ctx: Context,
  route: MatchedRoute,
  id: string | undefined,
) {
  const { clock, directory } = context;
  const { kind, pattern, params } = route;
  const redact = redactorOf(context);
  const recordOf = async (of: string | undefined): Promise<object | undefined> => {
    if (kind === undefined || of === undefined) return undefined;
    // Reads the value with `directory.change`, because the value in `directory.current` can be outdated.
    return await directory.change(kind, of, (known) => ({ answer: known }));
  };
  const ownersIn = (of: string | undefined, record: object | undefined) => {
    const own = kind === undefined ? {} : { [`${kind}Id`]: of };
    return ownersOf(context, [own, Object(record), params, Object(ctx.request.body)]);
  };
  const before = await recordOf(id);
  const words = Object.values(params).map((text) => canonicalUuid(text) ?? redactedWord(text, redact));
  const target = words.join('/').slice(0, MAX_TARGET);
  const startEntry: AuditEntry = {
    ...{
      id: randomUUID(),
      kind: 'change',
      at: clock.now(),
      doneAt: null,
      ...auditCaller(ctx, directory.current),
    },
    ...{ route: pattern, target: target === '' ? null : target, ...ownersIn(id, before) },
    ...{
      body: redactedText(ctx.request.body ?? parametersOf(ctx), redact),
      before: redactedText(before, redact),
      after: null,
    },
    ...{ status: null, code: null, count: 1 },
  };
  const endEntry = async (code: ProblemCode | undefined): Promise<AuditEntry> => {
    const recordId = id ?? canonicalUuid(String(Object(ctx.body).id));
    const after = await recordOf(recordId);
    return {
      ...{ ...startEntry, doneAt: clock.now(), target: startEntry.target ?? recordId ?? null },
      ...{ ...ownersIn(recordId, after ?? before), after: redactedText(after, redact) },
      ...{ status: code === undefined ? ctx.status : statusOf(code), code: code ?? null },
    };
  };
  return { asked: startEntry, answered: endEntry };
}

/**
 * Returns the query parameters of a request. Undefined if there are none. If a parameter is repeated, returns its
 * first value, because `firstQuery` gives this value to the routes.
 */
function parametersOf({ querystring }: Context): object | undefined {
  return querystring === '' ? undefined : Object.fromEntries([...new URLSearchParams(querystring)].reverse());
}

function codeOf(error: unknown): ProblemCode {
  if (error instanceof Rejected) return error.code;
  if (error instanceof RecordTooLarge) return 'event_too_large';
  return error instanceof Unavailable ? 'unavailable' : 'internal';
}

function ownersOf(
  { directory: { current } }: ChangeContext,
  sources: readonly object[],
): Pick<AuditEntry, 'tenantId' | 'projectId'> {
  const idIn = (name: string): string | undefined => {
    const values: unknown[] = sources.map((place) => Reflect.get(place, name));
    return values.flatMap((value) => (typeof value === 'string' ? (canonicalUuid(value) ?? []) : []))[0];
  };
  const projectId = idIn('projectId');
  const tenantId = current.projects.get(projectId ?? '')?.tenantId ?? idIn('tenantId');
  return { tenantId: tenantId ?? null, projectId: projectId ?? null };
}

function redactorOf({ adminToken, directory }: ChangeContext): (text: string) => string {
  const { tokenIdsBySha256 } = directory.current;
  return (text) => (tokenIdsBySha256.has(sha256Hex(text)) ? '***' : text.replaceAll(adminToken, '***'));
}
