/** Requests that `fetch` does not make: bodies held back, connections watched, headers as they stand on the wire. */
import { type Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';

export interface Exchange {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: Buffer | string;
  /** The body is announced and never sent. */
  readonly holdBack?: boolean;
  readonly agent?: Agent;
}

export interface Exchanged {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The connection had served an earlier request. */
  readonly isReused: boolean;
}

export function exchange(url: string, of: Exchange): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method: of.method ?? 'POST',
      ...(of.agent === undefined ? {} : { agent: of.agent }),
      headers: of.headers ?? {},
    });
    sent.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        if (of.holdBack === true) sent.destroy();
        const text = Buffer.concat(chunks).toString('utf8');
        const { statusCode: status = 0, headers } = response;
        resolve({ status, headers, text, isReused: sent.reusedSocket });
      });
    });
    sent.on('error', reject);
    if (of.holdBack === true) sent.flushHeaders();
    else sent.end(of.body);
  });
}
