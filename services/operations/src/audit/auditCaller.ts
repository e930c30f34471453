/** Finds the caller, the client address, and the route of a request to the operators' listener. */
import type { RouterInstance } from '@koa/router';
import { type Directory, sha256Hex } from '@questlog/runtime/directory/directory';
import type { AuditEntry } from '@questlog/schemas/topics/auditEntry';
import type { EntityKind } from '@questlog/schemas/topics/directoryEntry';
import type { Context } from 'koa';

export interface MatchedRoute {
  readonly pattern: string;
  readonly params: Readonly<Record<string, string>>;
  readonly kind: EntityKind | undefined;
}

const KINDS: Readonly<Record<string, EntityKind>> = {
  tenants: 'tenant',
  projects: 'project',
  tokens: 'token',
  readers: 'reader',
  exports: 'export',
};
/** Number of hex digits of a token's SHA-256 hash that the audit shows. Eight digits do not help to guess the token. */
const DIGEST_DIGITS = 8;
/**
 * Number of hash digits that identify a console session. Eight digits are too few: an operator could create two sessions with
 * the same digits.
 */
const SESSION_DIGEST_DIGITS = 16;

export function routeOf(router: RouterInstance, { path, method }: Context): MatchedRoute | undefined {
  const layer = router.match(path, method).pathAndMethod.findLast(({ methods }) => methods.length > 0);
  if (layer === undefined) return undefined;
  const pattern = String(layer.path);
  const params = layer.params(path, layer.captures(path), {});
  return { pattern, params, kind: KINDS[pattern.split('/')[2] ?? ''] };
}

export function auditCaller(
  ctx: Context,
  directory: Directory,
): Pick<AuditEntry, 'actor' | 'address' | 'method'> {
  const address = (ctx.socket.remoteAddress ?? '').replace(/^::ffff:/, '');
  return { actor: actorOf(ctx, directory), address, method: ctx.method };
}

function actorOf(ctx: Context, directory: Directory): string {
  // Identifies the caller by the console session, because all requests of the web console have the same admin token.
  const session: unknown = ctx.state['consoleSession'];
  if (typeof session === 'string') return `console:${sha256Hex(session).slice(0, SESSION_DIGEST_DIGITS)}`;
  const typed: unknown = Object(ctx.request.body).token;
  const sent = ctx.get('Authorization').replace(/^bearer +/i, '');
  const token = sent === '' && typeof typed === 'string' ? typed : sent;
  if (token === '') return 'nobody';
  const sha256 = sha256Hex(token);
  const gameTokenId = directory.tokenIdsBySha256.get(sha256);
  return gameTokenId === undefined ? `token:${sha256.slice(0, DIGEST_DIGITS)}` : `game-token:${gameTokenId}`;
}
