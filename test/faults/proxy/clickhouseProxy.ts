/**
 * Proxy in front of ClickHouse that behaves like a load balancer: it times out long inserts, and rejects all requests for a
 * while.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request as requestTo, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';

export const INSERT_FAULTS = {
  givenUp: 'a 504 comes as soon as ClickHouse has the whole insert, which runs on',
  late: 'a 504 comes while ClickHouse still waits for the end of the insert, which it gets when it is released',
} as const;
export type InsertFault = keyof typeof INSERT_FAULTS;

export interface PlannedInsertFault {
  readonly fault: InsertFault;
  /** Table of the inserts. Undefined for all tables. */
  readonly table?: string;
  /** @param nth number of the matching insert, from 1 */
  when(nth: number): boolean;
}

export interface InsertPlan {
  /** Number of inserts that the plan hit. */
  readonly hits: number;
  /** Ends the plan. Resolves with the statuses of ClickHouse for the inserts that were hit. */
  release(): Promise<readonly number[]>;
}

export interface Refusal {
  /** Number of rejected requests. */
  readonly refused: number;
  mend(): void;
}

export interface ClickHouseProxy {
  readonly url: string;
  plan(fault: PlannedInsertFault): InsertPlan;
  /** Breaks all requests until the end of the fault, except requests whose body matches `passes`. */
  refuse(passes?: RegExp): Refusal;
  close(): void;
}

/** @param target URL of ClickHouse; account and database come from the clients */
export async function startClickHouseProxy(target: string): Promise<ClickHouseProxy> {
  const plans = new Set<RunningInsertPlan>();
  let refusal: { refused: number; passes: RegExp | undefined } | undefined;
  const server = createServer((request, response) => {
    if (refusal !== undefined) {
      const { passes } = refusal;
      if (passes !== undefined)
        return void forwardMatching(passes, target, request, response).catch(() => response.destroy());
      refusal.refused += 1;
      return void request.socket.destroy();
    }
    const plan = [...plans].find((one) => one.hit(statementOf(request)));
    const done =
      plan === undefined ? forward(target, request, response) : plan.fail(target, request, response);
    done.catch(() => response.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const url = new URL(target);
  url.host = `127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  return {
    url: url.href,
    plan: (fault) => {
      const plan = new RunningInsertPlan(fault, () => plans.delete(plan));
      plans.add(plan);
      return plan;
    },
    refuse: (passes) => {
      const mend = (): void => {
        refusal = undefined;
      };
      const counted = { refused: 0, mend, passes };
      refusal = counted;
      return counted;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

class RunningInsertPlan implements InsertPlan {
  hits = 0;
  readonly #planned: PlannedInsertFault;
  readonly #end: () => void;
  readonly #outcomes: Promise<number>[] = [];
  readonly #released = Promise.withResolvers<void>();
  #fitting = 0;

  constructor(planned: PlannedInsertFault, end: () => void) {
    this.#planned = planned;
    this.#end = end;
  }

  hit(statement: string): boolean {
    const [, table] = /^INSERT INTO (\S+) /.exec(statement) ?? [];
    if (table === undefined || (this.#planned.table ?? table) !== table) return false;
    this.#fitting += 1;
    return this.#planned.when(this.#fitting);
  }

  /** Counts the insert after the client has received its 504. */
  async fail(target: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const bytes = await buffer(request);
    const passedOn = passOn(target, request);
    const answered = once(passedOn, 'response') as Promise<[IncomingMessage]>;
    const outcome = answered.then(async ([answer]) => {
      await buffer(answer);
      return answer.statusCode ?? 0;
    });
    this.#outcomes.push(outcome.catch(() => 0));
    if (this.#planned.fault === 'givenUp') passedOn.end(bytes);
    else {
      passedOn.write(bytes.subarray(0, -1));
      void this.#released.promise.then(() => passedOn.end(bytes.subarray(-1)));
    }
    response.writeHead(504, { 'content-type': 'text/html' }).end('<h1>504 Gateway Time-out</h1>');
    this.hits += 1;
  }

  async release(): Promise<readonly number[]> {
    this.#end();
    this.#released.resolve();
    return await Promise.all(this.#outcomes);
  }
}

/** Forwards the request if its body matches `passes`, and breaks the connection otherwise. */
async function forwardMatching(
  passes: RegExp,
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = await buffer(request);
  if (passes.test(body.toString())) await forward(target, request, response, body);
  else request.socket.destroy();
}

async function forward(
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
  body?: Buffer,
): Promise<void> {
  const passedOn = passOn(target, request);
  response.on('close', () => {
    if (!response.writableFinished) passedOn.destroy();
  });
  if (body === undefined) request.pipe(passedOn);
  else passedOn.end(body);
  const [answer] = (await once(passedOn, 'response')) as [IncomingMessage];
  response.writeHead(answer.statusCode ?? 0, answer.headers);
  answer.pipe(response);
}

function passOn(target: string, { method = 'GET', url = '', headers: given }: IncomingMessage) {
  const { connection: _, ...headers } = given;
  return requestTo(new URL(url, target), { method, headers });
}

/** Returns the statement, which is in the URL if the body contains rows. */
function statementOf({ url = '' }: IncomingMessage): string {
  return new URL(url, 'http://clickhouse').searchParams.get('query')?.trim() ?? '';
}
