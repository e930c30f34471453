/** Requests the lag, the readiness, and the ledger, from which the console derives its advice. */
import type { LagOutput, Readiness } from '@questlog/schemas/http/health';
import type { LedgerAnswer } from '@questlog/schemas/http/ledger';
import { get, send } from '../request.ts';
import { type Resource, useGet, useResource } from '../resource.ts';

const LEDGER_REFRESH_MS = 10_000;

export interface HealthState {
  readonly lag: Resource<LagOutput>;
  readonly ready: Resource<Readiness>;
  readonly ledger: Resource<LedgerAnswer>;
}

export function useHealth(everyMs: number): HealthState {
  return {
    lag: useGet<LagOutput>('/admin/lag', everyMs),
    ready: useResource('', readiness, everyMs),
    ledger: useResource('', requestLedger, LEDGER_REFRESH_MS),
  };
}

/** Returns undefined after a failed request, because the value of an earlier request does not show the current state. */
export function current<T>({ value, error }: Resource<T>): T | undefined {
  return error === undefined ? value : undefined;
}

/** A process that is not ready answers `GET /readyz` with the status 503 and a body. */
async function readiness(signal: AbortSignal): Promise<Readiness> {
  return await (await send('GET', '/readyz', undefined, signal)).json();
}

/** Requests only one minute of the ledger. Only the field `difference` is used, and this field always covers the last day. */
async function requestLedger(signal: AbortSignal): Promise<LedgerAnswer> {
  const from = new Date(performance.timeOrigin + performance.now() - 60_000).toISOString();
  return await get(`/admin/ledger?from=${from}`, signal);
}
