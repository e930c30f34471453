/** The id in a path: one that is no UUID names nothing. */
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Rejected } from './rejected.ts';

/** In lower case. @throws Rejected `not_found`. */
export function pathUuid(text: string): string {
  const id = canonicalUuid(text);
  if (id === undefined) throw new Rejected('not_found', 'the id in the path is not a UUID');
  return id;
}
