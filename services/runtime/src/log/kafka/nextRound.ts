/**
 * Callers of the same work share a round of it that begins after they called: the round that runs may have looked before
 * what they know of had happened. However many call, one round runs and one more is waiting.
 */
export function nextRound<T>(work: () => Promise<T>): () => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  const begin = (): Promise<T> => {
    next = undefined;
    const round = work();
    last = round.catch(() => undefined);
    return round;
  };
  return () => {
    next ??= last.then(begin);
    return next;
  };
}
