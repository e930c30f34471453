/** Terminates TLS in front of a server without TLS, as a load balancer does. */
import { connect } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import type { Certificate } from '@questlog/runtime/log/kafka/testing/certificates';

export interface TlsFront {
  /** Address for clients. It is the target with `https` and with the port of this server. */
  readonly url: string;
  close(): void;
}

/** @param target the `http` address of the server. The path of the address stays in `url`. */
export async function tlsFront(target: string, { certPem, keyPem }: Certificate): Promise<TlsFront> {
  const url = new URL(target);
  const open = new Set<TLSSocket>();
  const server = createServer({ cert: certPem, key: keyPem }, (outer) => {
    const inner = connect(Number(url.port || '80'), url.hostname);
    open.add(outer);
    outer.on('close', () => open.delete(outer) && inner.destroy());
    inner.on('close', () => outer.destroy());
    // Handles an error of a connection, because a client that does not trust the certificate closes the connection.
    for (const socket of [outer, inner]) socket.on('error', () => socket.destroy());
    outer.pipe(inner).pipe(outer);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const { href } = new URL(target.replace(/^http:/, 'https:').replace(url.host, `127.0.0.1:${port}`));
  return {
    url: href,
    close: () => {
      for (const socket of open) socket.destroy();
      server.close();
    },
  };
}
