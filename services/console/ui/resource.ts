/** Loads the data of a page: first load, refresh, polling, timeout, and abort. */
import type { ComponentChildren, VNode } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Failure, html, Loading } from './html.ts';
import { errorOf, get, type SqlParameters, sql } from './request.ts';

/** The latest result of a request. If a later attempt failed, `error` is the error of that attempt. */
export interface Resource<T> {
  readonly value: T | undefined;
  readonly error: Error | undefined;
  readonly refresh: () => void;
}

type Load<T> = (signal: AbortSignal) => Promise<T>;

/** Timeout of a request. Longer than 25 s, which is the maximum duration of an SQL statement. */
const ANSWER_TIMEOUT_MS = 30_000;

/**
 * Loads a value when `key` changes, and aborts the request of the previous key.
 * @param everyMs - interval of repeated requests while the page is visible; undefined: no repetition
 */
export function useResource<T>(
  key: string,
  load: Load<T>,
  everyMs?: number | ((value: T | undefined) => number | undefined),
): Resource<T> {
  const [state, setState] = useState<{ key: string; value?: T; error?: Error }>({ key });
  const latest = useRef(load);
  latest.current = load;
  const running = useRef<AbortController | undefined>(undefined);
  const stop = () => {
    const stopped = running.current;
    running.current = undefined;
    stopped?.abort();
  };
  const refresh = useCallback(() => {
    stop();
    const own = new AbortController();
    running.current = own;
    const timeoutError = new Error(`Questlog has not answered for ${ANSWER_TIMEOUT_MS / 1000} seconds.`);
    const timeout = setTimeout(() => own.abort(timeoutError), ANSWER_TIMEOUT_MS);
    const settle = (next: { value: T } | { error: Error }) => {
      clearTimeout(timeout);
      if (running.current !== own) return;
      running.current = undefined;
      // If the request failed, the state keeps the value of the last successful request.
      setState(
        (last) => ({ ...(last.key === key ? last : {}), error: undefined, ...next, key }) as typeof last,
      );
    };
    latest.current(own.signal).then(
      (value) => settle({ value }),
      (error: unknown) => settle({ error: errorOf(error) }),
    );
  }, [key]);
  useEffect(() => {
    refresh();
    return stop;
  }, [refresh]);
  const { value, error } = state.key === key ? state : {};
  const intervalMs = typeof everyMs === 'function' ? everyMs(value) : everyMs;
  useEffect(() => {
    if (intervalMs === undefined) return;
    // Waits for the running request, because a second request would slow down the first request.
    const tick = () => document.hidden || running.current !== undefined || refresh();
    const timer = setInterval(tick, intervalMs);
    return () => clearInterval(timer);
  }, [refresh, intervalMs]);
  return { value, error, refresh };
}

export function useGet<T>(path: string, everyMs?: number): Resource<T> {
  return useResource(path, (signal) => get<T>(path, signal), everyMs);
}

export function useSql<Row>(
  query: string,
  parameters: SqlParameters = {},
  everyMs?: number,
): Resource<Row[]> {
  return useResource(JSON.stringify(parameters), (signal) => sql<Row>(query, parameters, signal), everyMs);
}

/**
 * Shows the error of the latest attempt above the value. If there is neither an error nor a value, shows that the value is
 * loading.
 */
export function show<T>({ value, error }: Resource<T>, view: (value: T) => ComponentChildren): VNode {
  const isLoading = value === undefined && error === undefined;
  return html`<${Failure} error=${error} />${isLoading ? html`<${Loading} />` : value !== undefined && view(value)}`;
}
