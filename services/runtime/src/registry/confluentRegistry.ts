/**
 * Client of a Confluent-compatible schema registry. The kafkajs client registers schemas but does not look up ids
 * (docs/decisions/0012-own-schema-lookups.md).
 */
import { SchemaRegistry as Client, COMPATIBILITY, SchemaType } from '@kafkajs/confluent-schema-registry';
import type { Compatibility } from '@questlog/schemas/topics/contract';
import { BoundedMap } from '../process/boundedMap.ts';
import { type Clock, systemClock } from '../process/clock.ts';
import { messageOf, StartRefused, Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { retry } from '../process/waiting.ts';
import type { SchemaRegistry } from './registry.ts';
import {
  isNotFound,
  REQUEST_TIMEOUT_MS,
  type RegistryAddress,
  type RegistryResponse,
  type RegistrySettings,
  registryAddress,
  requestRegistry,
} from './registryHttp.ts';

export interface ConfluentRegistryOptions extends RegistrySettings {
  /** Prefix of the name of every subject. A prefix is necessary if several deployments share a registry. */
  readonly subjectPrefix: string;
  readonly logger: Logger;
  readonly clock?: Clock;
  readonly startTimeoutMs?: number;
}

export const START_TIMEOUT_MS = 30_000;
const MAX_REASON_CHARACTERS = 500;

/** Creates the client and does not connect. @throws StartRefused if the URL is invalid. */
export function openConfluentRegistry(options: ConfluentRegistryOptions): SchemaRegistry {
  const address = registryAddress(options);
  const client = clientOf(address);
  const cache = new SchemaCache((id) => fetchSchema(address, id), options.clock ?? systemClock);
  const timeoutMs = options.startTimeoutMs ?? START_TIMEOUT_MS;
  return {
    register: async (name, schema, compatibility) => {
      const subject = `${options.subjectPrefix}${name}`;
      const retryOptions = {
        signal: AbortSignal.timeout(timeoutMs),
        onDelay: ({ message }: Error, backoffMs: number) =>
          options.logger.warn('schema_registry_awaited', { subject, backoffMs, cause: message }),
      };
      try {
        return await retry(
          () =>
            registerOnce({ address, client, subject, schema, compatibility }).catch(
              rejectUntrustedCertificate,
            ),
          retryOptions,
        );
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error;
        throw new StartRefused(`${error.message}; tried for ${timeoutMs / 1000} s`, { cause: error });
      }
    },
    schemaById: (id) => cache.get(id),
  };
}

/** For each required compatibility level, the accepted levels: the same level and stricter levels. */
const STRICT_ENOUGH: Readonly<Record<Compatibility, readonly Compatibility[]>> = {
  BACKWARD_TRANSITIVE: ['BACKWARD_TRANSITIVE', 'FULL_TRANSITIVE'],
  FULL_TRANSITIVE: ['FULL_TRANSITIVE'],
};

interface Registration {
  readonly address: RegistryAddress;
  readonly client: Client;
  readonly subject: string;
  readonly schema: string;
  readonly compatibility: Compatibility;
}

/** Matches Node's error codes for an untrusted certificate. Retries cannot succeed until the certificate is replaced. */
const UNTRUSTED = /^(DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_TLS_CERT_)/;

function rejectUntrustedCertificate(error: unknown): never {
  const cause: unknown = error instanceof Unavailable ? error.cause : undefined;
  const code = cause instanceof Error ? String(Reflect.get(cause, 'code')) : '';
  throw UNTRUSTED.test(code) ? new StartRefused(messageOf(error), { cause: error }) : error;
}

/** Registers a schema. @throws StartRefused if the registry rejects it. @throws Unavailable if no response arrives. */
async function registerOnce(registration: Registration): Promise<number> {
  const { address, client, subject, schema } = registration;
  const compatibility = COMPATIBILITY[await ensureCompatibility(registration)];
  const confluentSchema = { type: SchemaType.AVRO, schema } as const;
  try {
    const { id }: { id: unknown } = await client.register(confluentSchema, { subject, compatibility });
    if (typeof id === 'number') return id;
    throw new Error('the response to a registration contains no id');
  } catch (error) {
    const status: unknown = error instanceof Error ? Reflect.get(error, 'status') : undefined;
    // Looks up the id after a conflict, because another process can have registered the same schema at the same time.
    const known = status === 409 ? await idOf(registration) : undefined;
    if (known !== undefined) return known;
    const reason = oneLine(messageOf(error));
    if (status === 409 || status === 422) {
      throw new StartRefused(`the schema registry rejects a schema for ${subject}: ${reason}`, {
        cause: error,
      });
    }
    throw (
      credentialsRefused(address, status) ??
      new Unavailable(unavailableMessage(address, reason), { cause: error })
    );
  }
}

/** Sets the compatibility of a subject first. Otherwise, an interrupted start could leave a subject that accepts any schema. */
async function ensureCompatibility({
  address,
  subject,
  compatibility,
}: Registration): Promise<Compatibility> {
  const path = `/config/${encodeURIComponent(subject)}`;
  let found = await requestRegistry(address, 'GET', path);
  if (isNotFound(found)) {
    const set = await requestRegistry(address, 'PUT', path, { compatibility });
    if (set.status === 200) return compatibility;
    if (set.status !== 409) throw startRefused(address, `to set the compatibility of ${subject}`, set);
    // Another process has set the compatibility at the same time, which is normal at the first start of a deployment.
    found = await requestRegistry(address, 'GET', path);
    if (isNotFound(found)) throw new Unavailable(`the compatibility of ${subject} is being set`);
  }
  if (found.status !== 200) throw startRefused(address, `to return the compatibility of ${subject}`, found);
  const level = String(found.body['compatibilityLevel']).toUpperCase();
  const accepted = STRICT_ENOUGH[compatibility].find((enough) => enough === level);
  if (accepted !== undefined) return accepted;
  throw new StartRefused(
    `the subject ${subject} has the compatibility ${level} in the schema registry; set it to ${compatibility}`,
  );
}

async function idOf({ client, subject, schema }: Registration): Promise<number | undefined> {
  return await client
    .getRegistryIdBySchema(subject, { type: SchemaType.AVRO, schema })
    .catch(() => undefined);
}

/** Returns the text of a schema. Undefined only if the registry itself reports that the id does not exist. */
async function fetchSchema(address: RegistryAddress, id: number): Promise<string | undefined> {
  const answer = await requestRegistry(address, 'GET', `/schemas/ids/${id}`);
  if (isNotFound(answer)) return undefined;
  const { schema } = answer.body;
  if (answer.status === 200 && typeof schema === 'string') return schema;
  // An unexpected response does not prove that the schema is missing. The consumer therefore waits, and does not send the
  // record to the dead letters.
  throw new Unavailable(unavailableMessage(address, `status ${answer.status} for schema ${id}`));
}

function clientOf({ url, auth, agent }: RegistryAddress): Client {
  type Middleware = NonNullable<ConstructorParameters<typeof Client>[0]['middlewares']>[number];
  const inTime: Middleware = () => ({
    prepareRequest: async (next) =>
      (await next()).enhance({ signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) }),
  });
  return new Client({
    host: url,
    agent,
    clientId: 'questlog',
    retry: { retries: 0 },
    middlewares: [inTime],
    ...(auth && { auth }),
  });
}

function startRefused(
  address: RegistryAddress,
  what: string,
  { status, body }: RegistryResponse,
): StartRefused {
  const reason = oneLine(String(body['message'] ?? `status ${status}`));
  return (
    credentialsRefused(address, status) ??
    new StartRefused(`the schema registry rejects the request ${what}: ${reason}`)
  );
}

function credentialsRefused({ url }: RegistryAddress, status: unknown): StartRefused | undefined {
  if (status !== 401 && status !== 403) return undefined;
  return new StartRefused(`the schema registry at ${url} rejects these credentials (status ${status})`);
}

function unavailableMessage({ url }: RegistryAddress, reason: string): string {
  return `the schema registry at ${url} sent an unexpected response: ${reason}`;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, MAX_REASON_CHARACTERS);
}

/** Maximum number of cached schemas. Unknown ids have a separate limit, because invalid records can contain any id. */
export const MAX_CACHED_SCHEMAS = 1_000;
export const MAX_CACHED_UNKNOWN_IDS = 10_000;
/** Time for which an unknown id is cached. The time is short, because a newer writer can register the id at any time. */
export const UNKNOWN_ID_CACHE_MS = 60_000;

export class SchemaCache {
  readonly #lookUp: (id: number) => Promise<string | undefined>;
  readonly #clock: Clock;
  readonly #schemas = new BoundedMap<number, string>(MAX_CACHED_SCHEMAS);
  /** For each unknown id, the time at which its cache entry expires, in milliseconds after 1970-01-01. */
  readonly #unknownUntilMs = new BoundedMap<number, number>(MAX_CACHED_UNKNOWN_IDS);
  readonly #running = new Map<number, Promise<string | undefined>>();

  constructor(lookUp: (id: number) => Promise<string | undefined>, clock: Clock) {
    this.#lookUp = lookUp;
    this.#clock = clock;
  }

  async get(id: number): Promise<string | undefined> {
    const known = this.#schemas.touch(id);
    if (known !== undefined || this.#isUnknown(id)) return known;
    let running = this.#running.get(id);
    if (running === undefined) {
      running = this.#fetch(id).finally(() => this.#running.delete(id));
      this.#running.set(id, running);
    }
    return await running;
  }

  /**
   * Returns true if the id is cached as unknown. Ignores an entry whose expiry time is too far in the future. In this case, the
   * clock was set back after the entry was stored.
   */
  #isUnknown(id: number): boolean {
    const leftMs = (this.#unknownUntilMs.touch(id) ?? 0) - this.#clock.now();
    return leftMs > 0 && leftMs <= UNKNOWN_ID_CACHE_MS;
  }

  async #fetch(id: number): Promise<string | undefined> {
    const schema = await this.#lookUp(id);
    if (schema === undefined) this.#unknownUntilMs.set(id, this.#clock.now() + UNKNOWN_ID_CACHE_MS);
    else this.#schemas.set(id, schema);
    return schema;
  }
}
