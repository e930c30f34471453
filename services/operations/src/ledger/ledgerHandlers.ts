/** Handles requests for the ledger and for the verification of a time range. */
import { PassThrough } from 'node:stream';
import { timestampField } from '@questlog/runtime/http/core/fieldProblems';
import { uuidFilter } from '@questlog/runtime/http/core/listFilters';
import { Rejected } from '@questlog/runtime/http/rejected';
import { firstQuery, type Handlers } from '@questlog/runtime/http/routes';
import { LogTruncated } from '@questlog/runtime/log/log';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import type { VerifyLine } from '@questlog/schemas/http/ledger';
import type { OPERATORS } from '@questlog/schemas/http/operations/operators';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { type LedgerDeps, readLedger } from './readLedger.ts';
import type { TimeRange } from './storedRows.ts';
import type { Verifier } from './verify.ts';

export function ledgerHandlers(
  verifier: Verifier,
  ledger: LedgerDeps,
  logger: Logger,
): Handlers<Pick<typeof OPERATORS, 'getLedger' | 'verify'>> {
  const { clock } = ledger;
  return {
    getLedger: (ctx) => {
      const given = firstQuery(ctx);
      const from = given('from') ?? new Date(clock.now() - HOUR_MS).toISOString();
      const tenantId = uuidFilter('tenant', given('tenant'));
      return readLedger(ledger, timesOf({ from, to: given('to'), tenantId }, clock.now()));
    },
    verify: (ctx, { body }) => {
      const times = timesOf(body, clock.now());
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
      return lines;
    },
  };
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
