/** `dev-credentials.json`: how a newcomer, a test or `npm run sql` reaches this deployment. Made once, kept afterwards. */
import { randomBytes, randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '@questlog/ingest/tokens/tokenText';
import { StartRefused } from '@questlog/runtime/process/errors';
import { ADMIN_TOKEN } from '@questlog/schemas/tokenPrefixes';
import Type, { type Static, type TSchema } from 'typebox';
import { hasEmbeddedLog } from './dataDir.ts';

const Account = Type.Object({ username: Type.String(), password: Type.String() });
export type Account = Readonly<Static<typeof Account>>;

const Credentials = Type.Object({
  /** Whose they are; not there as an earlier version wrote it. */
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
    /** The account that only reads, for BI; on a server only where `CLICKHOUSE_READER_URL` names it. */
    reader: Type.Optional(Account),
  }),
});
export type Credentials = Static<typeof Credentials>;

const FILE = 'dev-credentials.json';
const fileForLog = (log: string): string => `dev-credentials.${log}.json`;
/** What the file of a deployment on the embedded log may be called. */
export const EMBEDDED_CREDENTIALS: readonly string[] = [FILE, fileForLog('embedded')];

/**
 * Embedded and on Kafka are two deployments, also in one folder, and neither is to lose how it is reached: the second
 * one has a file of its own.
 */
export function credentialsPath(dataDir: string, isOnKafka: boolean): string {
  const log = isOnKafka ? 'kafka' : 'embedded';
  const path = join(dataDir, FILE);
  const existing = readCredentials(path);
  const owner = existing?.log ?? (hasEmbeddedLog(dataDir) ? 'embedded' : existing && 'kafka');
  return owner === undefined || owner === log ? path : join(dataDir, fileForLog(log));
}

/**
 * Returns the credentials file of the deployment in the folder that was started last, because a command in another shell
 * does not have the settings that name Kafka. Undefined if no deployment was started in the folder.
 */
export function latestCredentialsPath(dataDir: string): string | undefined {
  const startedMs = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return [FILE, fileForLog('embedded'), fileForLog('kafka')]
    .map((name) => join(dataDir, name))
    .filter((path) => startedMs(path) > 0)
    .sort((a, b) => startedMs(b) - startedMs(a))[0];
}

/** Those of an earlier start, or new ones; the addresses, and on a server its accounts, are filled in once they are known. */
export function loadCredentials(path: string): Credentials {
  return readCredentials(path) ?? newCredentials();
}

export function readCredentials(path: string): Credentials | undefined {
  try {
    const parsed: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (matches(Credentials, parsed)) return parsed as Credentials;
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined;
    throw new StartRefused(`${path} cannot be read; move it away to have new demo credentials`, { cause });
  }
  throw new StartRefused(
    `${path} is not what an earlier start wrote; move it away to have new demo credentials`,
  );
}

/** Objects, texts and a choice are all there is. TypeBox's own check takes longer to load than the rest of a command. */
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

/** Whole or not at all, readable by the owner only. */
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

/** Of an earlier start, or new: a file of a version that had none is completed by it. */
export function readerOf({ clickhouse }: Credentials): Account {
  return clickhouse.reader ?? { username: 'reader', password: secret() };
}

function secret(): string {
  return randomBytes(32).toString('base64url');
}
