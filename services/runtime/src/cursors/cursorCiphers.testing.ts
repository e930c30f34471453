/** Test support: cursor ciphers with a random secret. */
import { randomBytes, randomUUID } from 'node:crypto';
import { emptyDirectory } from '../directory/directory.ts';
import { systemClock } from '../process/clock.ts';
import type { CursorCipher } from './core/cursorCipher.ts';
import { type CursorCiphers, openCursorCiphers } from './cursorCiphers.ts';

export function testCursorCiphers(): CursorCiphers {
  const current = emptyDirectory();
  current.secrets.set('places', { id: 'places', bytes: randomBytes(32), createdAt: 0 });
  const change = () => Promise.reject(new Error('it has its secret'));
  return openCursorCiphers({ current, change }, systemClock);
}

export function testCursorCipher(): Promise<CursorCipher> {
  return testCursorCiphers().for('stream', randomUUID());
}
