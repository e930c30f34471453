/** `GET /v1/linked-events`: the request, as a client that is served until it goes, its token does, or the process stops. */
import type { RouterContext } from '@koa/router';
import type { Principal } from '@questlog/runtime/directory/directory';
import { parseToken, type StreamPosition } from './linkedEvents/core/linkedEventToken.ts';
import type { LinkedEventStreams } from './linkedEvents/streams.ts';
import { Rejected } from './rejected.ts';

/**
 * @param authenticate runs again as long as the stream does.
 * @throws Rejected, Unavailable: before the first byte.
 */
export async function streamLinkedEvents(
  streams: LinkedEventStreams,
  ctx: RouterContext,
  authenticate: () => Principal,
): Promise<void> {
  const principal = authenticate();
  const from = wantedPosition(ctx);
  if (ctx.method === 'HEAD') {
    ctx.status = 200;
    ctx.type = 'text/event-stream';
    return;
  }
  const client = { principal, response: ctx.res, isAllowed: () => isAllowed(authenticate) };
  const stream = await streams.open(client, from);
  if (stream === undefined) throw notAToken(nameOfPosition(ctx));
  ctx.respond = false;
}

/** A client that lost its connection repeats its first URL, and says in the header how far it came since. */
function wantedPosition(ctx: RouterContext): StreamPosition | 'start' | 'end' {
  const name = nameOfPosition(ctx);
  const given = name === 'from' ? ctx.query['from'] : ctx.get(LAST_EVENT_ID);
  const text = Array.isArray(given) ? given.at(-1) : given;
  if (name === 'from' && (text === undefined || text === 'start')) return 'start';
  if (name === 'from' && text === 'end') return 'end';
  const position = parseToken(text ?? '');
  if (position === undefined) throw notAToken(name);
  return position;
}

function nameOfPosition(ctx: RouterContext): 'from' | typeof LAST_EVENT_ID {
  return ctx.get(LAST_EVENT_ID) === '' ? 'from' : LAST_EVENT_ID;
}

function notAToken(name: string): Rejected {
  const choice = name === 'from' ? 'start, end, or the id of a message' : 'the id of a message';
  return new Rejected('invalid_request', `${name}: ${choice} of this stream`);
}

function isAllowed(authenticate: () => Principal): boolean {
  try {
    authenticate();
    return true;
  } catch (error) {
    if (error instanceof Rejected) return false;
    throw error;
  }
}

const LAST_EVENT_ID = 'Last-Event-ID';
