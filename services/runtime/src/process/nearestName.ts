/** Finds the known name that a misspelled name probably stands for. */

/**
 * Returns the candidate that needs the fewest edits. An edit adds, removes, or replaces a character, or swaps two adjacent
 * characters. The number of edits must be at most `maxEdits` and less than half of the candidate's length. Undefined if no
 * candidate is near enough. Upper and lower case count as equal.
 */
export function nearestName(
  name: string,
  candidates: Iterable<string>,
  maxEdits: number,
): string | undefined {
  let nearest: string | undefined;
  let fewest = maxEdits + 1;
  for (const candidate of candidates) {
    const edits = editsBetween(name.toLowerCase(), candidate.toLowerCase(), maxEdits);
    if (edits >= fewest || edits * 2 >= candidate.length) continue;
    nearest = candidate;
    fewest = edits;
  }
  return nearest;
}

/** Returns the number of edits (optimal string alignment distance). A number above `max` is not exact. */
function editsBetween(a: string, b: string, max: number): number {
  if (Math.abs(a.length - b.length) > max) return max + 1;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const edits = [
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (isSame ? 0 : 1),
        isSwap ? (beforeLast[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      ];
      row.push(Math.min(...edits));
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
