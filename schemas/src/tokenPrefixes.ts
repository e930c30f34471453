/** Prefixes of the tokens that Questlog creates. An admin token from the settings can have any prefix. */

export const PROJECT_TOKEN = 'qlt_';
export const ADMIN_TOKEN = 'qla_';

export const IS_ADMIN_TOKEN =
  'this is an admin token, which only the listener for operators accepts; games use the token of a project (qlt_…)';

export function notAdminToken(token: string): string {
  return token.startsWith(PROJECT_TOKEN)
    ? 'this is the token of a project, which only the listener for games accepts; operators use the admin token'
    : 'this is not the admin token';
}
