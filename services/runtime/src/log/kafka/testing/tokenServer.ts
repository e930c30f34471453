/** A server of unsigned bearer tokens (RFC 6749, section 4.4). */
import { createServer } from 'node:http';

export interface TokenServer {
  readonly url: string;
  /** Number of issued tokens. */
  readonly issuedCount: number;
  /** True if the server rejects the client. A test can set this field. */
  isRejecting: boolean;
  close(): Promise<void>;
}

export interface TokenClient {
  readonly clientId: string;
  readonly clientSecret: string;
  /** Subject of the token, which is the broker's user. */
  readonly subject: string;
  readonly lifetimeS: number;
}

export async function aTokenServer(client: TokenClient): Promise<TokenServer> {
  const encoded = [client.clientId, client.clientSecret].map(encodeURIComponent).join(':');
  const known = `Basic ${btoa(encoded)}`;
  const state = { issuedCount: 0, isRejecting: false };
  const server = createServer((request, response) => {
    if (state.isRejecting || request.headers.authorization !== known) {
      response.writeHead(401, { 'Content-Type': 'application/json' });
      response.end('{"error":"invalid_client"}');
      return;
    }
    state.issuedCount += 1;
    const { subject, lifetimeS } = client;
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end(
      JSON.stringify({
        access_token: unsigned(subject, lifetimeS),
        token_type: 'Bearer',
        expires_in: lifetimeS,
      }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return Object.assign(state, {
    url: `http://127.0.0.1:${port}/token`,
    close: () => new Promise<void>((resolve) => server.close(() => resolve())),
  });
}

/** Returns an unsecured JWS (RFC 7515, appendix A.5). */
function unsigned(subject: string, lifetimeS: number): string {
  const nowS = Math.floor(Date.now() / 1000);
  const parts = [{ alg: 'none' }, { sub: subject, iat: nowS, exp: nowS + lifetimeS }];
  const encoded = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'));
  return `${encoded.join('.')}.`;
}
