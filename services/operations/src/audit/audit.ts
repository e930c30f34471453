/** Writes audit records about changes by operators and about rejected credentials. */
import { randomUUID } from 'node:crypto';
import type { RouterInstance } from '@koa/router';
import { Rejected } from '@questlog/runtime/http/rejected';
import { messageOf } from '@questlog/runtime/process/errors';
import { settledWithin } from '@questlog/runtime/process/waiting';
import { createCodec } from '@questlog/runtime/registry/registry';
import { statusOf } from '@questlog/schemas/http/problem';
import { auditEntry } from '@questlog/schemas/topics/auditEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Context, Middleware } from 'koa';
import type { OperationsContext } from '../context.ts';
import { auditCaller, routeOf } from './auditCaller.ts';
import { type AppendAudit, auditChanges, type ChangeContext } from './changes.ts';
import { type CredentialRejection, CredentialRejectionCounts } from './core/credentialRejections.ts';

export interface Audit {
  /** Middleware that audits rejected credentials. Runs before the credentials are checked. */
  rejections(router: RouterInstance): Middleware;
  /** Middleware that audits changes by operators. Runs after the credentials were checked. */
  changes(router: RouterInstance): Middleware;
}

/** Sign-in paths of the web console, which the router does not know. */
const SIGN_IN = ['/login', '/logout'];
const MINUTE_MS = 60_000;
const LAST_WRITE_MS = 3_000;

export async function openAudit(
  context: ChangeContext & Pick<OperationsContext, 'log' | 'registry' | 'logger' | 'lifecycle'>,
): Promise<Audit> {
  const codec = await createCodec(context.registry, auditEntry);
  const append: AppendAudit = async (...entries) => {
    const records = entries.map((entry) => ({ key: null, value: codec.encode(entry) }));
    await context.log.append(TOPICS.audit, 0, records);
  };
  const note = credentialRejectionRecorder(context, append);
  return {
    rejections: (router) => auditRejections(context, router, note),
    changes: (router) => auditChanges(context, router, append),
  };
}

const REJECTION_FIELDS = {
  kind: 'refusal',
  ...{ target: null, tenantId: null, projectId: null, body: null, before: null, after: null },
} as const;

/** Returns a function that audits rejected credentials. The response does not wait until the log has the audit record. */
function credentialRejectionRecorder(
  { logger, lifecycle }: Pick<OperationsContext, 'logger' | 'lifecycle'>,
  append: AppendAudit,
): (refusal: CredentialRejection) => void {
  const counts = new CredentialRejectionCounts();
  const write = async (rejections: readonly CredentialRejection[]): Promise<void> => {
    if (rejections.length === 0) return;
    try {
      await append(...rejections.map((refusal) => ({ ...REJECTION_FIELDS, id: randomUUID(), ...refusal })));
    } catch (error) {
      logger.warn('audit_of_refusals_waits', { cause: messageOf(error) });
      for (const refusal of rejections) counts.add(refusal);
    }
  };
  const timer = setInterval(() => void write(counts.take()), MINUTE_MS);
  lifecycle.onStop('audit of refusals', async () => {
    clearInterval(timer);
    await settledWithin(write(counts.take()), LAST_WRITE_MS);
  });
  return (refusal) => {
    const first = counts.note(refusal);
    if (first !== undefined) void write([first]);
  };
}

function auditRejections(
  { clock, directory }: Pick<OperationsContext, 'clock' | 'directory'>,
  router: RouterInstance,
  note: (refusal: CredentialRejection) => void,
): Middleware {
  const recordRejection = (ctx: Context, code: 'unauthorized' | 'forbidden'): void => {
    if (ctx.state['isAudited'] === true) return;
    const route = SIGN_IN.includes(ctx.path) ? ctx.path : (routeOf(router, ctx)?.pattern ?? '');
    const at = clock.now();
    const of = { route, at, doneAt: at, status: statusOf(code), code, count: 1 };
    note({ ...auditCaller(ctx, directory.current), ...of });
  };
  return async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      const code = error instanceof Rejected ? error.code : undefined;
      if (code === 'unauthorized' || code === 'forbidden') recordRejection(ctx, code);
      throw error;
    }
  };
}
