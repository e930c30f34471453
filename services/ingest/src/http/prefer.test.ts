import { expect, test } from 'vitest';
import { handlingIn } from './prefer.ts';

test.each([
  ['handling=strict', 'strict'],
  ['handling=lenient', 'lenient'],
  ['Handling="Strict"', 'strict'],
  ['respond-async, wait=10, handling=strict', 'strict'],
  ['handling = strict ; x=1, return=minimal', 'strict'],
  ['foo; bar="a, b", handling=lenient', 'lenient'],
  ['handling=strict, handling=lenient', 'strict'],
  ['handling=lenient, handling=strict', 'lenient'],
  ['handling=other, handling=strict', undefined],
  ['foo="x, handling=strict"', undefined],
  ['foo; handling=strict', undefined],
  ['handling', undefined],
  ['nothandling=strict', undefined],
  ['handling=stricter', undefined],
  ['handling=strict x, handling=lenient', 'lenient'],
  ['handling=, handling=strict', undefined],
  ['strict', undefined],
  ['', undefined],
  ['"'.repeat(16_000), undefined],
])('%s', (prefer, handling) => {
  expect(handlingIn(prefer)).toBe(handling);
});
