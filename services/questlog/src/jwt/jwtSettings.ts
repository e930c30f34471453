/** The settings of JWTs: whose are taken, and what their claims mean here. */
import type { JwtOptions } from '@questlog/ingest/tokens/jwt/jwtVerifier';
import { setting } from '@questlog/runtime/process/config';
import { StartRefused } from '@questlog/runtime/process/errors';
import Type, { type Static } from 'typebox';

/** Those whose verification takes a public key: with a secret one, whoever knows the public key could sign. */
const JWT_ALGORITHMS: readonly string[] = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];

export const jwtSettings = {
  jwksUrl: setting.optional({
    env: 'QUESTLOG_JWKS_URL',
    description:
      'Address of the keys (a JWKS) of an issuer whose JWTs games may send as their token, `https` unless it is this machine. Empty: tokens of the directory only.',
  }),
  jwtIssuer: setting.optional({
    env: 'QUESTLOG_JWT_ISSUER',
    description: 'What `iss` of a JWT must be, to the letter. Needed with `QUESTLOG_JWKS_URL`.',
  }),
  jwtAudience: setting.optional({
    env: 'QUESTLOG_JWT_AUDIENCE',
    description: 'What `aud` of a JWT must be or hold. Needed with `QUESTLOG_JWKS_URL`.',
  }),
  jwtAlgorithms: setting.text({
    env: 'QUESTLOG_JWT_ALGORITHMS',
    default: 'RS256,ES256,EdDSA',
    description: `Signatures of JWTs that are taken, separated by commas, of ${JWT_ALGORITHMS.join(', ')}.`,
  }),
  jwtClockSkewSeconds: setting.integer({
    env: 'QUESTLOG_JWT_CLOCK_SKEW_SECONDS',
    default: 30,
    minimum: 0,
    maximum: 300,
    description: 'By how much the clocks of the issuer and of ingest may differ.',
  }),
  jwtProjectClaim: setting.text({
    env: 'QUESTLOG_JWT_PROJECT_CLAIM',
    default: 'questlog_project',
    description: 'The claim of a JWT with the id of its project.',
  }),
  jwtTenantClaim: setting.text({
    env: 'QUESTLOG_JWT_TENANT_CLAIM',
    default: 'questlog_tenant',
    description:
      'The claim with the id of the tenant. A JWT may lack it; where it is, the project must be of that tenant.',
  }),
  jwtScopeClaim: setting.text({
    env: 'QUESTLOG_JWT_SCOPE_CLAIM',
    default: 'scope',
    description:
      'The claim with the scopes, separated by spaces or as a list. Those of other services are ignored.',
  }),
  jwtBuildsClaim: setting.text({
    env: 'QUESTLOG_JWT_BUILDS_CLAIM',
    default: 'questlog_builds',
    description:
      'The claim with the ids of the builds that a JWT may write for, separated by spaces or as a list. Without it: for all.',
  }),
} as const;

const schema = Type.Object(jwtSettings);

/** Undefined where JWTs are not set up. @throws StartRefused naming the setting at fault. */
export function jwtOptions(settings: Readonly<Static<typeof schema>>): JwtOptions | undefined {
  const { jwksUrl, jwtIssuer: issuer, jwtAudience: audience } = settings;
  if (jwksUrl === '') {
    if (issuer + audience === '') return undefined;
    throw new StartRefused(
      'QUESTLOG_JWKS_URL: needed where QUESTLOG_JWT_ISSUER or QUESTLOG_JWT_AUDIENCE is set',
    );
  }
  if (issuer === '') throw new StartRefused('QUESTLOG_JWT_ISSUER: needed with QUESTLOG_JWKS_URL');
  // The same issuer signs for other services: without it a token that was meant for one of them would be one here.
  if (audience === '') throw new StartRefused('QUESTLOG_JWT_AUDIENCE: needed with QUESTLOG_JWKS_URL');
  const algorithms = settings.jwtAlgorithms.split(',').map((name) => name.trim());
  const unknown = algorithms.filter((name) => !JWT_ALGORITHMS.includes(name));
  if (unknown.length > 0) {
    const known = JWT_ALGORITHMS.join(', ');
    throw new StartRefused(`QUESTLOG_JWT_ALGORITHMS: ${unknown.join(', ')} is none of ${known}`);
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

/** Whoever changes the keys on their way signs what he likes. */
function keysAddress(text: string): URL {
  const url = URL.parse(text);
  const isHere = url !== null && ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname);
  if (url !== null && url.username + url.password !== '')
    throw new StartRefused('QUESTLOG_JWKS_URL: a user or password in it is never sent; JWKS are public');
  if (url?.protocol === 'https:' || (isHere && url.protocol === 'http:')) return url;
  throw new StartRefused('QUESTLOG_JWKS_URL: must be an https address, or an http one of this machine');
}
