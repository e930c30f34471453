/** What operators ask of the books: `POST /admin/verify`, answered a line at a time for as long as it takes. */
import { PassThrough } from 'node:stream';
import type { RouterInstance } from '@koa/router';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { VerifyInput, type VerifyLine } from '@questlog/schemas/http/ledger';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { timestampField } from '../core/fieldProblems.ts';
import type { Times } from '../ledger/held.ts';
import type { Verifier } from '../ledger/verify.ts';
import { Rejected } from '../rejected.ts';
import { checkedBody, jsonBody } from './route.ts';

export interface LedgerRouteDeps {
  readonly verifier: Verifier;
  readonly clock: Clock;
  readonly logger: Logger;
}

export function ledgerRoutes(router: RouterInstance, { verifier, clock, logger }: LedgerRouteDeps): void {
  const verifyBody = checkedBody(VerifyInput);
  router.post('/admin/verify', jsonBody(), (ctx) => {
    const times = timesOf(verifyBody(ctx.request.body), clock.now());
    const verify = verifier.start();
    const lines = new PassThrough();
    const gone = new AbortController();
    ctx.res.once('close', () => gone.abort(new Unavailable('nobody waits for the answer any more')));
    const tell = (line: VerifyLine) => void lines.write(`${JSON.stringify(line)}\n`);
    verify(times, gone.signal, tell)
      .catch((error: unknown) => {
        if (gone.signal.aborted) return;
        const isBug = !(error instanceof Unavailable);
        logger.error('verify_failed', error, { bug: isBug });
        tell({ kind: 'failed', detail: isBug ? 'the cause is in the log' : error.message });
      })
      .finally(() => lines.end());
    ctx.type = 'application/x-ndjson';
    ctx.body = lines;
  });
}

/** Whole minutes, up to now at most. */
function timesOf({ from, to, tenantId }: VerifyInput, nowMs: number): Times {
  const fromMs = millisOf('from', from);
  const toMs = Math.min(to == null ? nowMs : millisOf('to', to), nowMs);
  if (fromMs >= toMs) throw new Rejected('invalid_request', 'from must lie before to, and in the past');
  const wholeMs = Math.ceil(toMs / MINUTE_MS) * MINUTE_MS;
  const times = { fromMs: Math.floor(fromMs / MINUTE_MS) * MINUTE_MS, toMs: wholeMs };
  return { ...times, tenantId: tenantId == null ? undefined : canonicalUuid(tenantId) };
}

function millisOf(field: string, text: string): number {
  return Number(timestampField(field, text) / 1000n);
}

const MINUTE_MS = 60_000;
