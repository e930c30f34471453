/** Writes operators' changes and rejected credentials to the audit topic. */
import { randomUUID } from 'node:crypto';
import type { RouterInstance } from '@koa/router';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Log } from '@questlog/runtime/log/log';
import { messageOf } from '@questlog/runtime/process/errors';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import { settledWithin } from '@questlog/runtime/process/waiting';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { statusOf } from '@questlog/schemas/http/problem';
import { auditEntry } from '@questlog/schemas/topics/auditEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import type { Context, Middleware } from 'koa';
import { auditCaller, routeOf } from './auditCaller.ts';
import { type AppendAudit, auditChanges, type ChangeDeps } from './changes.ts';
import { type CredentialRejection, CredentialRejectionCounts } from './core/credentialRejections.ts';

export interface AuditDeps extends ChangeDeps {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  readonly logger: Logger;
  readonly lifecycle: Pick<Lifecycle, 'onStop'>;
}

export interface Audit {
  /** Middleware that runs before credentials are checked. */
  rejections(router: RouterInstance): Middleware;
  /** Middleware that runs after credentials were checked. */
  changes(router: RouterInstance): Middleware;
}

/** Paths of the web console, which are not registered in the router. */
const SIGN_IN = ['/login', '/logout'];
const MINUTE_MS = 60_000;
const LAST_WRITE_MS = 3_000;

export async function openAudit(deps: AuditDeps): Promise<Audit> {
  const codec = await createCodec(deps.registry, auditEntry);
  const append: AppendAudit = async (...entries) => {
    const records = entries.map((entry) => ({ key: null, value: codec.encode(entry) }));
    await deps.log.append(TOPICS.audit, 0, records);
  };
  const note = credentialRejectionRecorder(deps, append);
  return {
    rejections: (router) => auditRejections(deps, router, note),
    changes: (router) => auditChanges(deps, router, append),
  };
}

const REJECTION_FIELDS = {
  kind: 'refusal',
  ...{ target: null, tenantId: null, projectId: null, body: null, before: null, after: null },
} as const;

/** Returns a function that audits rejected credentials. The response does not wait until the log has the audit record. */
function credentialRejectionRecorder(
  { logger, lifecycle }: AuditDeps,
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
  { clock, directory }: AuditDeps,
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
    // The sign-in of the web console sets status 401 without throwing an error.
    if (ctx.status === 401) recordRejection(ctx, 'unauthorized');
    if (ctx.status === 403) recordRejection(ctx, 'forbidden');
  };
}
