/** Defines the routes `GET /admin/ledger` and `POST /admin/verify`. A verification responds with one JSON line per result. */
import { PassThrough } from 'node:stream';
import type { RouterInstance } from '@koa/router';
import { timestampField } from '@questlog/runtime/http/core/fieldProblems';
import { uuidFilter } from '@questlog/runtime/http/core/listFilters';
import { Rejected } from '@questlog/runtime/http/rejected';
import { checkedBody, jsonBody } from '@questlog/runtime/http/route';
import { LogTruncated } from '@questlog/runtime/log/log';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { VerifyInput, type VerifyLine } from '@questlog/schemas/http/ledger';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { type LedgerDeps, readLedger } from './readLedger.ts';
import type { TimeRange } from './storedRows.ts';
import type { Verifier } from './verify.ts';

export interface LedgerRouteDeps {
  readonly verifier: Verifier;
  readonly ledger: LedgerDeps;
  readonly logger: Logger;
}

export function ledgerRoutes(router: RouterInstance, { verifier, ledger, logger }: LedgerRouteDeps): void {
  const { clock } = ledger;
  router.get('/admin/ledger', async (ctx) => {
    const query = new URLSearchParams(ctx.querystring);
    const given = (name: string): string | undefined => query.get(name) ?? undefined;
    const from = given('from') ?? new Date(clock.now() - HOUR_MS).toISOString();
    const tenantId = uuidFilter('tenant', given('tenant'));
    ctx.body = await readLedger(ledger, timesOf({ from, to: given('to'), tenantId }, clock.now()));
  });
  const verifyBody = checkedBody(VerifyInput);
  router.post('/admin/verify', jsonBody(), (ctx) => {
    const times = timesOf(verifyBody(ctx.request.body), clock.now());
    const verify = verifier.start();
    const lines = new PassThrough();
    const closed = new AbortController();
    ctx.res.once('close', () => closed.abort(new Unavailable('the client has disconnected')));
    const write = (line: VerifyLine) => void lines.write(`${JSON.stringify(line)}\n`);
    verify(times, closed.signal, write)
      .catch((error: unknown) => {
        if (closed.signal.aborted) return;
        const isBug = !(error instanceof Unavailable || error instanceof LogTruncated);
        logger.error('verify_failed', error, { bug: isBug });
        write({ kind: 'failed', detail: isBug ? 'the cause is in the log' : messageOf(error) });
      })
      .finally(() => lines.end());
    ctx.type = 'application/x-ndjson';
    ctx.body = lines;
  });
}

interface TimeRangeInput {
  readonly from: string;
  readonly to?: string | null | undefined;
  readonly tenantId?: string | null | undefined;
}

function timesOf({ from, to, tenantId }: TimeRangeInput, nowMs: number): TimeRange {
  const fromMs = millisOf('from', from);
  const toMs = Math.min(to == null ? nowMs : millisOf('to', to), nowMs);
  if (fromMs >= toMs) throw new Rejected('invalid_request', 'from must be before to, and in the past');
  const wholeMs = Math.ceil(toMs / MINUTE_MS) * MINUTE_MS;
  const times = { fromMs: Math.floor(fromMs / MINUTE_MS) * MINUTE_MS, toMs: wholeMs };
  return { ...times, tenantId: tenantId == null ? undefined : canonicalUuid(tenantId) };
}

function millisOf(field: string, text: string): number {
  return Number(timestampField(field, text) / 1000n);
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
