/** Prefixes of the tokens that Questlog creates. An operator can set an admin token without a prefix. */

export const PROJECT_TOKEN = 'qlt_';
export const ADMIN_TOKEN = 'qla_';

/** Message for a client that sent an admin token to the listener for games. */
export const IS_ADMIN_TOKEN =
  'this is an admin token, which only the listener for operators accepts; games use the token of a project (qlt_…)';

/** Returns the message for an operator whose token is not the admin token. */
export function notAdminToken(token: string): string {
  return token.startsWith(PROJECT_TOKEN)
    ? 'this is the token of a project, which only the listener for games accepts; operators use the admin token'
    : 'this is not the admin token';
}
