/**
 * A correct game client: sends one request at a time and its sessions in order, and repeats an unanswered keyed request before
 * other requests.
 */
import { aKey } from '../e2e/builders.ts';
import type { Answer, Product } from '../e2e/product.ts';
import { type SentEvent, type SentLedger, type SentRequest, sha256Of } from './ledger.ts';
import type { Random } from './seeded.ts';

/** Target of the requests. */
type Played = Pick<Product, 'request'>;

export interface ClientOptions {
  readonly name: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly token: string;
  /** True if events may have no session (revision B). Such events have no order. */
  readonly mayOmitSession: boolean;
  /** Maximum events of one request. */
  readonly maxBatch?: number;
  /** Offset of the client's clock, which the keys contain, in milliseconds. */
  readonly shiftMs?: number;
  /** False if the client sends each lenient request only once. */
  readonly repeatsLenient?: boolean;
  readonly random: Random;
  readonly ledger: SentLedger;
}

const MAX_BATCH = 200;
/** Maximum acknowledged keyed requests that the client may repeat later. */
const MAX_REMEMBERED = 20;
const VALUES = [
  '18446744073709551616',
  '[1.0,-0,1e400,0.10]',
  '{"z":1,"a":2,"z":3}',
  '"\\u0041\\ud83d\\ude00 \\/ é 漢 😀"',
  ' [ true , null ] ',
  '""',
] as const;
const TYPES = ['checkpoint', 'player_action', 'performance', 'ошибка 😀'] as const;

export class KillClient {
  readonly #options: ClientOptions;
  #session: { id: string; isRegistered: boolean; sequence: number };
  #unfinished: SentRequest | undefined;
  readonly #remembered: SentRequest[] = [];
  #sent = 0;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#session = this.#newSession();
  }

  /** Sends until the product is killed. */
  async play(product: Played): Promise<void> {
    while (await this.#step(product));
  }

  /** Repeats unanswered requests on a running product. */
  async finish(product: Played): Promise<void> {
    while (this.#unfinished !== undefined) await this.#send(product, this.#unfinished);
  }

  async #step(product: Played): Promise<boolean> {
    const { random, ledger } = this.#options;
    if (this.#unfinished !== undefined) {
      ledger.retries += 1;
      return await this.#send(product, this.#unfinished);
    }
    if (random.chance(0.02)) this.#session = this.#newSession();
    if (!this.#session.isRegistered) return await this.#register(product);
    const known = this.#remembered[random.between(0, MAX_REMEMBERED - 1)];
    if (known !== undefined && random.chance(0.05)) {
      ledger.repeats += 1;
      return await this.#send(product, known);
    }
    return await this.#send(product, this.#newRequest());
  }

  async #register(product: Played): Promise<boolean> {
    const { ledger } = this.#options;
    const session = this.#session;
    const answer = await this.#post(product, '/v1/ingest/sessions', JSON.stringify({ id: session.id }), {});
    if (answer === undefined) return false;
    if (answer.status === 503) return true;
    if (answer.status !== 201 && answer.status !== 200) return this.#unexpected(answer);
    session.isRegistered = true;
    ledger.sessions.set(session.id, { projectId: this.#options.projectId, isAcknowledged: true });
    return true;
  }

  /** Sends a request. False if the product was killed; then the request may or may not be stored. */
  async #send(product: Played, request: SentRequest): Promise<boolean> {
    const { ledger, repeatsLenient = true } = this.#options;
    const canRepeat = request.key !== undefined && (repeatsLenient || !request.isLenient);
    if (canRepeat) this.#unfinished = request;
    const answer = await this.#post(product, '/v1/ingest/events', request.body, {
      ...(request.key === undefined ? {} : { 'Idempotency-Key': request.key }),
      ...(request.isLenient ? { Prefer: 'handling=lenient' } : {}),
    });
    if (answer === undefined) return false;
    // After a 503, the client may send again; an unkeyed request then counts as unanswered.
    if (answer.status === 503) return true;
    this.#unfinished = undefined;
    if (answer.status !== 201 && answer.status !== 200 && answer.status !== 207)
      return this.#unexpected(answer);
    const elements: { id?: unknown }[] = answer.json();
    ledger.acknowledge(
      request,
      elements.slice(0, elements.length - (request.isLenient ? 1 : 0)).map(({ id }) => id),
    );
    if (canRepeat) this.#remembered[this.#options.random.between(0, MAX_REMEMBERED - 1)] = request;
    return true;
  }

  async #post(
    product: Played,
    path: string,
    body: Buffer | string,
    headers: Record<string, string>,
  ): Promise<Answer | undefined> {
    const authorization = { Authorization: `Bearer ${this.#options.token}` };
    try {
      return await product.request('POST', path, { body, headers: { ...headers, ...authorization } });
    } catch {
      return undefined;
    }
  }

  #unexpected(answer: Answer): boolean {
    this.#options.ledger.violations.push(
      `${this.#options.name} was answered ${answer.status}: ${answer.text()}`,
    );
    return true;
  }

  #newRequest(): SentRequest {
    const { tenantId, projectId, random, ledger, mayOmitSession } = this.#options;
    const { maxBatch = MAX_BATCH, shiftMs = 0 } = this.#options;
    const isKeyed = random.chance(0.35);
    const isLenient = isKeyed && random.chance(0.2);
    // A lenient request has one more element, which is invalid.
    const count = random.chance(0.5) ? 1 : random.between(2, isLenient ? maxBatch - 1 : maxBatch);
    const sessionId = mayOmitSession && random.chance(0.5) ? null : this.#session.id;
    const events: SentEvent[] = [];
    const elements: string[] = [];
    for (let i = 0; i < count; i++) {
      const payload = this.#payload();
      const sequence = sessionId === null ? -1 : this.#session.sequence++;
      const sha256 = sha256Of(Buffer.from(payload));
      events.push({ tenantId, projectId, sessionId, sha256, sequence, id: undefined });
      const session = sessionId === null ? '' : `"sessionId":"${sessionId}",`;
      elements.push(`{${session}"eventType":${JSON.stringify(random.pick(TYPES))},"payload":${payload}}`);
    }
    if (isLenient) elements.push('{"eventType":7}');
    const isSingle = count === 1 && !isLenient && random.chance(0.7);
    const body = Buffer.from(isSingle ? elements.join('') : `[${elements.join(',')}]`);
    const key = isKeyed ? aKey(Date.now() + shiftMs) : undefined;
    const request: SentRequest = { key, isLenient, body, events };
    ledger.add(request);
    return request;
  }

  #payload(): string {
    const { name, random } = this.#options;
    const padding = 'x'.repeat(random.between(0, 200));
    return `{"n":"${name}/${this.#sent++}","value":${random.pick(VALUES)},"padding":"${padding}"}`;
  }

  #newSession(): { id: string; isRegistered: boolean; sequence: number } {
    const id = aKey();
    this.#options.ledger.sessions.set(id, { projectId: this.#options.projectId, isAcknowledged: false });
    return { id, isRegistered: false, sequence: 0 };
  }
}
