/** Who sends a request to the listener of operators, from where, and which of its routes it is for. */
import type { RouterInstance } from '@koa/router';
import { type Directory, sha256Hex } from '@questlog/runtime/directory/directory';
import type { AuditEntry } from '@questlog/schemas/topics/auditEntry';
import type { EntityKind } from '@questlog/schemas/topics/directoryEntry';
import type { Context } from 'koa';

export interface MatchedRoute {
  readonly pattern: string;
  readonly params: Readonly<Record<string, string>>;
  /** What `:id` is of, where the directory has it. */
  readonly kind: EntityKind | undefined;
}

const KINDS: Readonly<Record<string, EntityKind>> = {
  tenants: 'tenant',
  projects: 'project',
  tokens: 'token',
};
/** Digits of a SHA-256: they tell credentials apart, and are of no use to who guesses one. */
const DIGEST_DIGITS = 8;
/** Who has the admin token can sign sessions until one has a colleague's digits: with eight that takes hours. */
const SESSION_DIGEST_DIGITS = 16;

/** Undefined: none has the path and the method. */
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
  // Whoever has signed in is told by the console; his token is the admin token by now.
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
