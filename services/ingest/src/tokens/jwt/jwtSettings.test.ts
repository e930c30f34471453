import { loadConfig } from '@questlog/runtime/process/config';
import { StartRefused } from '@questlog/runtime/process/errors';
import Type from 'typebox';
import { expect, test } from 'vitest';
import { jwtOptions, jwtSettings } from './jwtSettings.ts';

const schema = Type.Object(jwtSettings);
const WHOLE = {
  QUESTLOG_JWKS_URL: 'https://login.example.com/jwks.json',
  QUESTLOG_JWT_ISSUER: 'https://login.example.com/',
  QUESTLOG_JWT_AUDIENCE: 'questlog',
};
const of = (env: Record<string, string>) => jwtOptions(loadConfig(schema, env, 'QUESTLOG_'));

test('returns no options without settings, and the configured options with settings', () => {
  expect(of({})).toBeUndefined();
  expect(of({ ...WHOLE, QUESTLOG_JWT_ALGORITHMS: 'PS256, EdDSA', QUESTLOG_JWT_SCOPE_CLAIM: 'may' })).toEqual({
    jwksUrl: new URL('https://login.example.com/jwks.json'),
    ...{ issuer: 'https://login.example.com/', audience: 'questlog', algorithms: ['PS256', 'EdDSA'] },
    clockSkewSeconds: 30,
    claims: {
      project: 'questlog_project',
      tenant: 'questlog_tenant',
      scopes: 'may',
      builds: 'questlog_builds',
    },
  });
});

test.each(['http://localhost:3000/jwks', 'http://127.0.0.1/jwks', 'http://[::1]:80/jwks'])(
  'accepts %s as address of the keys, because the connection stays on this machine',
  (url) => {
    expect(of({ ...WHOLE, QUESTLOG_JWKS_URL: url })).toBeDefined();
  },
);

test.each([
  ['QUESTLOG_JWKS_URL', ''],
  ['QUESTLOG_JWKS_URL', 'http://login.example.com/jwks.json'],
  ['QUESTLOG_JWKS_URL', 'http://localhost.example.com/jwks.json'],
  ['QUESTLOG_JWKS_URL', 'file:///etc/keys'],
  ['QUESTLOG_JWKS_URL', 'login.example.com'],
  ['QUESTLOG_JWT_ISSUER', ''],
  ['QUESTLOG_JWT_AUDIENCE', ''],
  ['QUESTLOG_JWT_ALGORITHMS', 'none'],
  ['QUESTLOG_JWT_ALGORITHMS', 'RS256,HS256'],
  ['QUESTLOG_JWT_ALGORITHMS', 'rs256'],
  ['QUESTLOG_JWT_ALGORITHMS', 'RS256,'],
])('rejects %s=%j and names the setting', (name, value) => {
  expect(() => of({ ...WHOLE, [name]: value })).toThrow(StartRefused);
  expect(() => of({ ...WHOLE, [name]: value })).toThrow(`${name}: `);
});
