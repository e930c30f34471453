/**
 * Stands between clients and brokers, and does to single requests what a network may do to them. Each broker has a port
 * here, and answers that name brokers name these ports. Without TLS: it reads what it passes on.
 */
import { once } from 'node:events';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { APIS, type Api, answeredId, FrameCutter, requestHead, withPorts } from './kafkaFrames.ts';

export const KAFKA_FAULTS = {
  answerLost: 'the broker has done it, and the connection breaks before it can say so',
  answerHeld: 'the answer, and what comes behind it, waits to be released',
  requestHeld: 'the request, and what comes behind it, waits to be released',
  requestLate: 'the connection breaks, and the request reaches the broker when it is released',
} as const;
export type KafkaFault = keyof typeof KAFKA_FAULTS;

export interface PlannedFault {
  readonly api: Api;
  readonly fault: KafkaFault;
  /** What the request names: a topic, a group, a transactional id. Left out: any. */
  readonly names?: string;
  /** @param nth of the requests that fit, from 1. */
  when(nth: number): boolean;
}

export interface Plan {
  /** So many requests were hit. */
  readonly hits: number;
  /** So many of these has the broker answered, whether anybody hears of it or not. */
  readonly answered: number;
  /** What was held goes where it was to go; nothing is hit any more. */
  release(): void;
}

export interface KafkaProxy {
  /** `host:port` for clients, in the order of the brokers, separated by commas. */
  readonly brokers: string;
  plan(fault: PlannedFault): Plan;
  /**
   * Nothing passes to the broker or from it, and no connection breaks: as for one that is stopped. What was sent
   * meanwhile arrives when it is healed.
   * @param port the broker's own. @returns heals.
   */
  blackHole(port: number): () => void;
  close(): Promise<void>;
}

/** @param brokers `host:port` as they name themselves to clients, separated by commas. */
export async function startKafkaProxy(brokers: string): Promise<KafkaProxy> {
  const addresses = brokers.split(',').map((address) => address.split(':') as [string, string]);
  const plans = new Set<RunningPlan>();
  const fronts: BrokerFront[] = [];
  const ports = new Map<number, number>();
  for (const [host, port] of addresses) {
    const change = (answer: Buffer) => withPorts(answer, host, ports);
    const front = new BrokerFront({ host, port: Number(port), plans, change });
    ports.set(Number(port), await front.listen());
    fronts.push(front);
  }
  return {
    brokers: addresses.map(([host, port]) => `${host}:${ports.get(Number(port))}`).join(','),
    plan: (fault) => {
      const plan = new RunningPlan(fault, () => plans.delete(plan));
      plans.add(plan);
      return plan;
    },
    blackHole: (port) => {
      const front = fronts.find((one) => one.port === port);
      if (front === undefined) throw new Error(`no broker has the port ${port}`);
      return front.blackHole();
    },
    close: async () => void (await Promise.all(fronts.map((front) => front.close()))),
  };
}

class RunningPlan implements Plan {
  readonly planned: PlannedFault;
  hits = 0;
  answered = 0;
  readonly #held: (() => void)[] = [];
  readonly #end: () => void;
  #fitting = 0;

  constructor(planned: PlannedFault, end: () => void) {
    this.planned = planned;
    this.#end = end;
  }

  hit(apiKey: number, frame: Buffer): boolean {
    const { api, names, when } = this.planned;
    if (APIS[api] !== apiKey || (names !== undefined && !frame.includes(names))) return false;
    this.#fitting += 1;
    if (!when(this.#fitting)) return false;
    this.hits += 1;
    return true;
  }

  hold(release: () => void): void {
    this.#held.push(release);
  }

  release(): void {
    this.#end();
    for (const release of this.#held.splice(0)) release();
  }
}

interface FrontDeps {
  readonly host: string;
  readonly port: number;
  readonly plans: ReadonlySet<RunningPlan>;
  change(answer: Buffer): Buffer;
}

/** What stands before one broker. */
class BrokerFront {
  readonly #deps: FrontDeps;
  readonly #server: Server;
  readonly #passages = new Set<Passage>();
  /** Heal the passages of a black hole; undefined: there is none. */
  #heals: (() => void)[] | undefined;

  constructor(deps: FrontDeps) {
    this.#deps = deps;
    this.#server = createServer((client) => this.#connect(client));
  }

  get port(): number {
    return this.#deps.port;
  }

  /** @returns the port for clients. */
  async listen(): Promise<number> {
    await once(this.#server.listen(0, this.#deps.host), 'listening');
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  blackHole(): () => void {
    const heals = [...this.#passages].map((passage) => passage.hold());
    this.#heals = heals;
    return () => {
      this.#heals = undefined;
      for (const heal of heals.splice(0)) heal();
    };
  }

  async close(): Promise<void> {
    for (const passage of this.#passages) passage.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #connect(client: Socket): void {
    const { host, port } = this.#deps;
    const passage = new Passage(client, createConnection({ host, port }), this.#deps);
    this.#passages.add(passage);
    void passage.gone.then(() => this.#passages.delete(passage));
    this.#heals?.push(passage.hold());
  }
}

/** One connection of a client, and the one to the broker that stands behind it. */
class Passage {
  /** Resolves when both connections are. */
  readonly gone: Promise<unknown>;
  readonly #client: Socket;
  readonly #broker: Socket;
  readonly #deps: FrontDeps;
  readonly #up: Lane;
  readonly #down: Lane;
  /** By the request's number. */
  readonly #asked = new Map<number, { readonly apiKey: number; readonly plan: RunningPlan | undefined }>();

  constructor(client: Socket, broker: Socket, deps: FrontDeps) {
    this.#client = client;
    this.#broker = broker;
    this.#deps = deps;
    this.#up = new Lane(broker);
    this.#down = new Lane(client);
    const [requests, answers] = [new FrameCutter(), new FrameCutter()];
    for (const socket of [client, broker]) socket.setNoDelay().on('error', () => socket.destroy());
    client.on('data', (chunk) => {
      for (const frame of requests.cut(chunk)) this.#request(frame);
    });
    broker.on('data', (chunk) => {
      for (const frame of answers.cut(chunk)) this.#answer(frame);
    });
    client.on('close', () => this.#endIfDone());
    broker.on('close', () => this.#down.end());
    this.gone = Promise.all(
      [client, broker].map((socket) => new Promise((close) => socket.on('close', close))),
    );
  }

  /** @returns lets everything go on. */
  hold(): () => void {
    const releases = [this.#up.hold(), this.#down.hold()];
    return () => {
      for (const release of releases) release();
    };
  }

  destroy(): void {
    this.#client.destroy();
    this.#broker.destroy();
  }

  #request(frame: Buffer): void {
    const { apiKey, correlationId } = requestHead(frame);
    const plan = [...this.#deps.plans].find((one) => one.hit(apiKey, frame));
    this.#asked.set(correlationId, { apiKey, plan });
    const fault = plan?.planned.fault;
    if (fault === 'requestHeld' || fault === 'requestLate') plan?.hold(this.#up.hold());
    this.#up.send(frame);
    if (fault === 'requestLate') this.#client.destroy();
  }

  #answer(frame: Buffer): void {
    const id = answeredId(frame);
    const { apiKey, plan } = this.#asked.get(id) ?? {};
    this.#asked.delete(id);
    if (plan !== undefined) plan.answered += 1;
    if (plan?.planned.fault === 'answerLost') {
      this.destroy();
      return;
    }
    if (plan?.planned.fault === 'answerHeld') plan.hold(this.#down.hold());
    const namesBrokers = apiKey === APIS.Metadata || apiKey === APIS.FindCoordinator;
    this.#down.send(namesBrokers ? this.#deps.change(frame) : frame);
    if (this.#client.destroyed) this.#endIfDone();
  }

  /** The client has gone; what it has asked still reaches the broker. */
  #endIfDone(): void {
    if (this.#asked.size === 0) this.#up.end();
  }
}

/** One direction of a connection. */
class Lane {
  readonly #to: Socket;
  readonly #waiting: Buffer[] = [];
  #holds = 0;
  #isEnded = false;

  constructor(to: Socket) {
    this.#to = to;
  }

  send(frame: Buffer): void {
    this.#waiting.push(frame);
    this.#go();
  }

  /** @returns releases. */
  hold(): () => void {
    this.#holds += 1;
    return () => {
      this.#holds -= 1;
      this.#go();
    };
  }

  end(): void {
    this.#isEnded = true;
    this.#go();
  }

  #go(): void {
    if (this.#holds > 0) return;
    for (const frame of this.#waiting.splice(0)) if (this.#to.writable) this.#to.write(frame);
    if (this.#isEnded) this.#to.end();
  }
}
