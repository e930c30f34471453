/** The first start creates the file `dev-credentials.json`, which contains the addresses and tokens of the deployment. */
import { randomBytes, randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '@questlog/runtime/directory/tokenText';
import { StartRefused } from '@questlog/runtime/process/errors';
import { ADMIN_TOKEN } from '@questlog/schemas/tokenPrefixes';
import Type, { type Static, type TSchema } from 'typebox';
import { hasEmbeddedLog } from './dataDir.ts';

const Account = Type.Object({ username: Type.String(), password: Type.String() });
export type Account = Readonly<Static<typeof Account>>;

const Credentials = Type.Object({
  /** The field is absent if an earlier version of Questlog wrote the file. */
  log: Type.Optional(Type.Union([Type.Literal('embedded'), Type.Literal('kafka')])),
  baseUrl: Type.String(),
  adminUrl: Type.String(),
  token: Type.String(),
  adminToken: Type.String(),
  tenantId: Type.String(),
  projectId: Type.String(),
  sessionId: Type.String(),
  clickhouse: Type.Object({
    url: Type.String(),
    database: Type.String(),
    username: Type.String(),
    password: Type.String(),
    /** Read-only ClickHouse account for BI tools. Absent if ClickHouse is external and `CLICKHOUSE_READER_URL` is not set. */
    reader: Type.Optional(Account),
  }),
});
export type Credentials = Static<typeof Credentials>;

const FILE = 'dev-credentials.json';
const fileForLog = (log: string): string => `dev-credentials.${log}.json`;
export const EMBEDDED_CREDENTIALS: readonly string[] = [FILE, fileForLog('embedded')];

export function credentialsPath(dataDir: string, isOnKafka: boolean): string {
  const log = isOnKafka ? 'kafka' : 'embedded';
  const path = join(dataDir, FILE);
  const existing = readCredentials(path);
  const owner = existing?.log ?? (hasEmbeddedLog(dataDir) ? 'embedded' : existing && 'kafka');
  return owner === undefined || owner === log ? path : join(dataDir, fileForLog(log));
}

/** Returns the path of the newest credentials file, or undefined. Commands that do not know the log engine use this path. */
export function latestCredentialsPath(dataDir: string): string | undefined {
  const startedMs = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return [FILE, fileForLog('embedded'), fileForLog('kafka')]
    .map((name) => join(dataDir, name))
    .filter((path) => startedMs(path) > 0)
    .sort((a, b) => startedMs(b) - startedMs(a))[0];
}

export function loadCredentials(path: string): Credentials {
  return readCredentials(path) ?? newCredentials();
}

export function readCredentials(path: string): Credentials | undefined {
  try {
    const parsed: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (matches(Credentials, parsed)) return parsed as Credentials;
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined;
    throw new StartRefused(`${path} cannot be read; move it away to create new demo credentials`, { cause });
  }
  throw new StartRefused(
    `${path} is not a valid credentials file; move it away to create new demo credentials`,
  );
}

/** True if the value matches the schema. This function replaces TypeBox's own check, which takes long to load. */
function matches(schema: TSchema, value: unknown): boolean {
  if (Type.IsUnion(schema)) return schema.anyOf.some((one) => matches(one, value));
  if (Type.IsLiteral(schema)) return value === schema.const;
  if (!Type.IsObject(schema)) return typeof value === 'string';
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries<TSchema>(schema.properties).every(([name, property]) => {
    const field: unknown = Reflect.get(value, name);
    return field === undefined ? Type.IsOptional(property) : matches(property, field);
  });
}

/** Writes the credentials file atomically. Only the owner of the file can read the file. */
export function saveCredentials(path: string, credentials: Credentials): void {
  const file = openSync(`${path}.tmp`, 'w', 0o600);
  try {
    writeSync(file, `${JSON.stringify(credentials, null, 2)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(`${path}.tmp`, path);
}

function newCredentials(): Credentials {
  return {
    baseUrl: '',
    adminUrl: '',
    token: newToken(),
    adminToken: ADMIN_TOKEN + secret(),
    tenantId: randomUUID(),
    projectId: randomUUID(),
    sessionId: randomUUID(),
    clickhouse: { url: '', database: 'questlog', username: 'questlog', password: secret() },
  };
}

export function readerOf({ clickhouse }: Credentials): Account {
  return clickhouse.reader ?? { username: 'reader', password: secret() };
}

function secret(): string {
  return randomBytes(32).toString('base64url');
}
