/** Settings of JSON Web Tokens (JWTs): the trusted issuer and the meaning of the claims. */
import { type SettingsOf, setting } from '@questlog/runtime/process/config';
import { StartRefused } from '@questlog/runtime/process/errors';
import type { JwtOptions } from './jwtVerifier.ts';

/** Allowed signature algorithms. HMAC is excluded, because anyone could then sign a JWT with the public key. */
const JWT_ALGORITHMS: readonly string[] = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];

export const jwtSettings = {
  jwksUrl: setting.optional({
    env: 'QUESTLOG_JWKS_URL',
    description:
      'Address of an issuer’s keys (a JWKS), which must use `https` if it is not local. Games can send JWTs of this issuer as their token. If empty, only tokens that Questlog created are accepted.',
  }),
  jwtIssuer: setting.optional({
    env: 'QUESTLOG_JWT_ISSUER',
    description: 'Value of the claim `iss`. Required with `QUESTLOG_JWKS_URL`.',
  }),
  jwtAudience: setting.optional({
    env: 'QUESTLOG_JWT_AUDIENCE',
    description: 'Value that the claim `aud` must equal or contain. Required with `QUESTLOG_JWKS_URL`.',
  }),
  jwtAlgorithms: setting.text({
    env: 'QUESTLOG_JWT_ALGORITHMS',
    default: 'RS256,ES256,EdDSA',
    description: `Accepted signature algorithms, separated by commas. Possible: ${JWT_ALGORITHMS.join(', ')}.`,
  }),
  jwtClockSkewSeconds: setting.integer({
    env: 'QUESTLOG_JWT_CLOCK_SKEW_SECONDS',
    default: 30,
    minimum: 0,
    maximum: 300,
    description: 'Maximum difference between the clocks of the issuer and of ingest.',
  }),
  jwtProjectClaim: setting.text({
    env: 'QUESTLOG_JWT_PROJECT_CLAIM',
    default: 'questlog_project',
    description: 'Claim with the id of the project.',
  }),
  jwtTenantClaim: setting.text({
    env: 'QUESTLOG_JWT_TENANT_CLAIM',
    default: 'questlog_tenant',
    description:
      'Optional claim with the id of the tenant. If a JWT has this claim, the project must belong to the tenant.',
  }),
  jwtScopeClaim: setting.text({
    env: 'QUESTLOG_JWT_SCOPE_CLAIM',
    default: 'scope',
    description:
      'Claim with the scopes, separated by spaces or as a list. Scopes of other services are ignored.',
  }),
  jwtBuildsClaim: setting.text({
    env: 'QUESTLOG_JWT_BUILDS_CLAIM',
    default: 'questlog_builds',
    description:
      'Claim with the ids of the builds that the JWT can write for, separated by spaces or as a list. A JWT without this claim can write for all builds.',
  }),
} as const;

export function jwtOptions(settings: SettingsOf<typeof jwtSettings>): JwtOptions | undefined {
  const { jwksUrl, jwtIssuer: issuer, jwtAudience: audience } = settings;
  if (jwksUrl === '') {
    if (issuer + audience === '') return undefined;
    throw new StartRefused('QUESTLOG_JWKS_URL: required with QUESTLOG_JWT_ISSUER and QUESTLOG_JWT_AUDIENCE');
  }
  if (issuer === '') throw new StartRefused('QUESTLOG_JWT_ISSUER: required with QUESTLOG_JWKS_URL');
  // Requires an audience, because the issuer can also sign tokens for other services. Questlog must reject these tokens.
  if (audience === '') throw new StartRefused('QUESTLOG_JWT_AUDIENCE: required with QUESTLOG_JWKS_URL');
  const algorithms = settings.jwtAlgorithms.split(',').map((name) => name.trim());
  const unknown = algorithms.filter((name) => !JWT_ALGORITHMS.includes(name));
  if (unknown.length > 0) {
    const known = JWT_ALGORITHMS.join(', ');
    throw new StartRefused(`QUESTLOG_JWT_ALGORITHMS: ${unknown.join(', ')} is not one of ${known}`);
  }
  return {
    ...{ jwksUrl: keysAddress(jwksUrl), issuer, audience, algorithms },
    clockSkewSeconds: settings.jwtClockSkewSeconds,
    claims: {
      ...{
        project: settings.jwtProjectClaim,
        tenant: settings.jwtTenantClaim,
        scopes: settings.jwtScopeClaim,
        builds: settings.jwtBuildsClaim,
      },
    },
  };
}

/** Returns the address of the issuer's keys. It must be `https` or local, so that the keys cannot be replaced in transit. */
function keysAddress(text: string): URL {
  const url = URL.parse(text);
  const isHere = url !== null && ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname);
  if (url !== null && url.username + url.password !== '')
    throw new StartRefused(
      'QUESTLOG_JWKS_URL: must not contain a user or password, because they are never sent',
    );
  if (url?.protocol === 'https:' || (isHere && url.protocol === 'http:')) return url;
  throw new StartRefused('QUESTLOG_JWKS_URL: must be an https address, or an http address of this machine');
}
