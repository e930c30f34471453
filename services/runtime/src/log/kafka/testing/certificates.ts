/** Certificates of a test's own certificate authority, created with `openssl`. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Certificate {
  readonly certPem: string;
  readonly keyPem: string;
}

export interface Authority {
  /** Certificate of the authority. */
  readonly caPem: string;
  /** Issues a certificate for 127.0.0.1. The certificate works for servers and clients. @param name the common name. */
  issue(name: string): Certificate;
  /** Issues a certificate for 192.0.2.1, which no connection uses. */
  issueForElsewhere(name: string): Certificate;
}

/** Returns a certificate authority. Undefined if `openssl` is not installed. */
export function anAuthority(name: string): Authority | undefined {
  try {
    const ca = made(`/CN=${name}`, ['basicConstraints=critical,CA:TRUE']);
    const issue = (common: string, address: string): Certificate =>
      made(`/CN=${common}`, ['basicConstraints=critical,CA:FALSE', `subjectAltName=IP:${address}`], ca);
    return {
      caPem: ca.certPem,
      issue: (common) => issue(common, '127.0.0.1'),
      issueForElsewhere: (common) => issue(common, '192.0.2.1'),
    };
  } catch (error) {
    if (error instanceof Error && Reflect.get(error, 'code') === 'ENOENT') return undefined;
    throw error;
  }
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
const VALID_DAYS = '2';

/** Creates a certificate. The authority signs the certificate. Without an authority, the certificate is self-signed. */
function made(subject: string, extensions: readonly string[], by?: Certificate): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-certificates-'));
  const at = (name: string): string => join(folder, name);
  try {
    // `-config` excludes the machine's configuration.
    writeAll(at, { 'openssl.cnf': '[req]\ndistinguished_name = dn\n[dn]\n', ...signer(by) });
    execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-config', at('openssl.cnf'), ...NEW_KEY, '-days', VALID_DAYS, '-subj', subject],
        ...extensions.flatMap((extension) => ['-addext', extension]),
        ...(by === undefined ? [] : ['-CA', at('ca.pem'), '-CAkey', at('ca.key')]),
        ...['-keyout', at('key.pem'), '-out', at('cert.pem')],
      ],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
    return { certPem: readFileSync(at('cert.pem'), 'utf8'), keyPem: readFileSync(at('key.pem'), 'utf8') };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function signer(by: Certificate | undefined): Record<string, string> {
  return by === undefined ? {} : { 'ca.pem': by.certPem, 'ca.key': by.keyPem };
}

function writeAll(at: (name: string) => string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) writeFileSync(at(name), text, { mode: 0o600 });
}
