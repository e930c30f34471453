/** For tests: seals whose secret nobody keeps. */
import { randomBytes, randomUUID } from 'node:crypto';
import { emptyDirectory } from '@questlog/runtime/directory/directory';
import { systemClock } from '@questlog/runtime/process/clock';
import type { Seal } from '../core/sealed.ts';
import { openSeals, type Seals } from './seals.ts';

export function someSeals(): Seals {
  const current = emptyDirectory();
  current.secrets.set('places', { id: 'places', bytes: randomBytes(32), createdAt: 0 });
  const change = () => Promise.reject(new Error('it has its secret'));
  return openSeals({ directory: { current, change }, clock: systemClock });
}

export function aSeal(): Promise<Seal> {
  return someSeals().of('stream', randomUUID());
}
