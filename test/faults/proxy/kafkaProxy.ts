/**
 * Proxy between clients and brokers that applies network faults to single requests. Each broker has a port here, and responses
 * that name brokers name these ports. Works without TLS, because it parses the frames.
 */
import { once } from 'node:events';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { APIS, type Api, answeredId, FrameCutter, requestHead, withPorts } from './kafkaFrames.ts';

export const KAFKA_FAULTS = {
  answerLost: 'the broker processes the request, and the connection breaks before the response',
  answerHeld: 'the response and later frames wait until they are released',
  requestHeld: 'the request and later frames wait until they are released',
  requestLate: 'the connection breaks, and the request reaches the broker when it is released',
} as const;
export type KafkaFault = keyof typeof KAFKA_FAULTS;

export interface PlannedFault {
  readonly api: Api;
  readonly fault: KafkaFault;
  /** Topic, group, or transactional id of the request. Undefined for all names. */
  readonly names?: string;
  /** @param nth number of the matching request, from 1 */
  when(nth: number): boolean;
}

export interface Plan {
  /** Number of requests that the plan hit. */
  readonly hits: number;
  /** Number of these requests that the broker has answered, whether or not the client got the response. */
  readonly answered: number;
  /** Forwards held frames and ends the plan. */
  release(): void;
}

export interface KafkaProxy {
  /** Brokers for clients, `host:port`, in the order of the brokers, separated by commas. */
  readonly brokers: string;
  plan(fault: PlannedFault): Plan;
  /**
   * Blocks all frames from and to the broker without breaking connections, as if the broker were stopped. Frames arrive after
   * the block ends. @param port port of the broker. @returns a function that ends the block
   */
  blackHole(port: number): () => void;
  close(): Promise<void>;
}

/** @param brokers advertised addresses of the brokers, `host:port`, separated by commas */
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

/** The proxy's listener for one broker. */
class BrokerFront {
  readonly #deps: FrontDeps;
  readonly #server: Server;
  readonly #passages = new Set<Passage>();
  /** Functions that unblock the connections. Undefined if the broker is not blocked. */
  #heals: (() => void)[] | undefined;

  constructor(deps: FrontDeps) {
    this.#deps = deps;
    this.#server = createServer((client) => this.#connect(client));
  }

  get port(): number {
    return this.#deps.port;
  }

  /** Returns the port for clients. */
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

/** One connection of a client with its connection to the broker. */
class Passage {
  /** Resolves when both connections are closed. */
  readonly gone: Promise<unknown>;
  readonly #client: Socket;
  readonly #broker: Socket;
  readonly #deps: FrontDeps;
  readonly #up: Lane;
  readonly #down: Lane;
  /** Requests by correlation id. */
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

  /** Holds both directions. @returns a function that releases them */
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

  /** Closes the broker's connection after the client has closed its connection and the broker has received all requests. */
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

  /** Holds the direction. @returns a function that releases it */
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
