/** What the counts of rejects learn of a request once it is answered: whose it was, and the body that was wrong. */
import type { Principal } from '@questlog/runtime/directory/directory';
import { statusOf } from '@questlog/schemas/http/problem';
import type { ParameterizedContext } from 'koa';
import type { UnknownField } from '../core/unknownFields.ts';
import { Rejected } from '../rejected.ts';
import type { Reject } from '../rejects/core/rejectCounts.ts';
import type { Rejects } from '../rejects/rejects.ts';

type Found = Pick<Reject, 'code' | 'index' | 'pointer'>;

/** In a request's `state`. Of one with nothing wrong there is only the principal. */
export interface NotedState {
  principal?: Principal;
  body?: Buffer;
  /** Elements that were left out of a batch. */
  refused?: readonly Found[];
  ignored?: readonly UnknownField[];
}

/** Keeps the body of a request that something is wrong with until it is answered. */
export async function keptIfWrong<T extends { ignored: readonly unknown[]; refused?: readonly Found[] }>(
  state: NotedState,
  body: Buffer,
  work: Promise<T>,
): Promise<T> {
  try {
    const answer = await work;
    const { ignored, refused = [] } = answer;
    if (ignored.length + refused.length > 0) Object.assign(state, { body, refused });
    return answer;
  } catch (error) {
    if (error instanceof Rejected) state.body = body;
    throw error;
  }
}

/** @param rejected undefined where the request was taken. */
export function noteAnswer(
  rejects: Rejects,
  ctx: ParameterizedContext,
  rejected: Rejected | undefined,
): void {
  const { principal, body, refused = [], ignored = [] }: NotedState = ctx.state;
  const found = rejected === undefined ? refused : problemsOf(rejected);
  if (found.length + ignored.length === 0) return;
  const route: unknown = ctx['_matchedRoute'];
  // A parsed body is kept as text.
  const raw: unknown = Reflect.get(ctx.request, 'rawBody');
  const sent = body ?? (typeof raw === 'string' ? Buffer.from(raw) : undefined);
  const isAboutFields = rejected === undefined || (rejected.errors ?? []).length > 0;
  rejects.note({
    principal,
    endpoint: route === undefined ? '' : `${ctx.method} ${route}`,
    token: ctx.get('Authorization').replace(/^bearer +/i, ''),
    body: isAboutFields || isAboutBody(rejected) ? sent : undefined,
    failedAt: isAboutFields ? undefined : rejected.failedAt,
    rejects: [
      ...found.map(({ code, index, pointer }) => ({ kind: 'rejected' as const, code, index, pointer })),
      ...ignored.map((field) => ({ ...field, kind: 'ignored' as const, code: 'field_unknown' as const })),
    ],
  });
}

/** What stands in the body is no matter of its session or its key. */
function isAboutBody({ code }: Rejected): boolean {
  return [400, 413].includes(statusOf(code));
}

function problemsOf({ code, errors = [] }: Rejected): readonly Found[] {
  return errors.length > 0 ? errors : [{ code, index: 0, pointer: '' }];
}
