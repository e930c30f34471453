/** Sends requests over a fixed number of kept connections with `node:http`, which uses little CPU. */
import { Agent, request } from 'node:http';

export interface Reply {
  readonly status: number;
  readonly body: Buffer;
}

export interface Connections {
  send(method: string, path: string, body?: Buffer): Promise<Reply>;
  /** Runs `work` for 0 … count-1, one at a time on each connection. */
  each(count: number, work: (i: number) => Promise<void>): Promise<void>;
  close(): void;
}

export function openConnections(baseUrl: string, token: string, connections: number): Connections {
  const { hostname, port } = new URL(baseUrl);
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const send = (method: string, path: string, body?: Buffer): Promise<Reply> =>
    new Promise((resolve, reject) => {
      const headers = {
        Authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': body.length }),
      };
      const sent = request({ agent, hostname, port, method, path, headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }));
        response.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(body);
    });
  return {
    send,
    each: async (count, work) => {
      let next = 0;
      const lane = async (): Promise<void> => {
        while (next < count) await work(next++);
      };
      await Promise.all(Array.from({ length: connections }, lane));
    },
    close: () => agent.destroy(),
  };
}

export async function registerSessions(connections: Connections, count: number): Promise<string[]> {
  const ids: string[] = [];
  await connections.each(count, async () => {
    const { status, body } = await connections.send('POST', '/v1/ingest/sessions', Buffer.from('{}'));
    if (status !== 201) throw new Error(`answered ${status} instead of 201: ${body}`);
    const session: { id: string } = JSON.parse(body.toString());
    ids.push(session.id);
  });
  return ids;
}

export function percentile(ascending: readonly number[], share: number): number {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * share))] ?? Number.NaN;
}
