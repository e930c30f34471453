/**
 * The closed lists of openings and phrases that the project's prose does not use. A list separates good prose from bad only
 * if the prose of other projects passes: `npm run measure:language -- <folder>` prints the figures of any folder.
 */

export interface Expression {
  readonly pattern: RegExp;
  /** A sentence that the pattern must find. */
  readonly bad: string;
  /** A sentence that looks similar and that the pattern must not find. */
  readonly good: string;
  /** The words to use instead. */
  readonly instead: string;
}

/** Openings of a sentence in a comment. */
export const OPENINGS: readonly Expression[] = [
  {
    pattern: /^(Of|As of)\b/,
    bad: 'Of a process that may also stand on the embedded log.',
    good: 'Offset of the last record.',
    instead: 'a verb or a noun phrase',
  },
  {
    pattern: /^(What|Whatever)\b/,
    bad: 'What Prometheus is answered.',
    good: 'Body of the response to Prometheus.',
    instead: 'the thing itself',
  },
  {
    pattern: /^(Who|Whose|Whoever|Whom)\b/,
    bad: 'Whose X-Forwarded-For is believed.',
    good: 'Proxies whose X-Forwarded-For is trusted.',
    instead: 'the person or the component',
  },
  {
    pattern: /^(Which|Such as)\b/,
    bad: 'Which of the two is meant nobody can tell.',
    good: 'The name decides which table is read.',
    instead: 'the subject of the sentence',
  },
  {
    pattern: /^(So|Also|Else)\b/,
    bad: 'So long after its sender has lost the partition an insert is over.',
    good: 'Sorts the rows, so that the first row is the newest.',
    instead: 'the subject, and "because" or "therefore" inside the sentence',
  },
  {
    pattern: /^(Besides?|Behind)\b/,
    bad: 'Behind the last record of the block.',
    good: 'Offset after the last record of the block.',
    instead: 'a noun phrase',
  },
  {
    pattern: /^(One|Those) (that|of|who|whose)\b/,
    bad: 'Those that a filter leaves.',
    good: 'Events that match the filter.',
    instead: 'the noun',
  },
  {
    pattern: /^(Nobody|Nothing|None)\b/,
    bad: 'Nobody is asked for who has not signed in.',
    good: 'Undefined if no token is set.',
    instead: 'a positive sentence with a subject',
  },
];

/** Phrases anywhere in a comment, a test title, or a page. */
export const PHRASES: readonly Expression[] = [
  {
    pattern: /\b(whoever|whomever)\b/gi,
    bad: 'Only whoever owns the partition may write.',
    good: 'Only the owner of the partition can write.',
    instead: 'the person or the component',
  },
  {
    pattern: /\b(nobody|somebody|anybody)\b/gi,
    bad: 'Nobody waits for it.',
    good: 'No request waits for the insert.',
    instead: 'the person or the component',
  },
  { pattern: /\banew\b/gi, bad: 'It begins anew.', good: 'The task restarts.', instead: '"again"' },
  {
    pattern: /\bbeside\b/gi,
    bad: 'The row beside it.',
    good: 'Besides the row, the query returns a count.',
    instead: '"next to", "with", or "in addition to"',
  },
  {
    pattern: /\btold\b/gi,
    bad: 'The client is told.',
    good: 'The client receives the response.',
    instead: '"returned", "reported", or "logged"',
  },
  {
    pattern: /\b(the|of) books\b/gi,
    bad: 'The books are even.',
    good: 'The ledger balances.',
    instead: '"ledger"',
  },
  {
    pattern: /\b(the|a|each|open|old|its) letters?\b(?! or digit)/gi,
    bad: 'The letter is replayed.',
    good: 'The dead letter is replayed.',
    instead: '"dead letter"',
  },
  {
    pattern: /\b(lies|lie|lay) (in|on|at|there|behind|between|before|beyond|within)\b/gi,
    bad: 'The file lies in the folder.',
    good: 'The file is in the folder.',
    instead: '"is in"',
  },
  {
    pattern: /\bstands? (in(?! for)|on|at|there|before|behind|still|alone|first|last)\b/gi,
    bad: 'The name stands in the first line.',
    good: 'KIP stands for Kafka improvement proposal.',
    instead: '"is in"',
  },
  {
    pattern: /\b(goes|go|went|gone) on\b/gi,
    bad: 'It goes on with the next.',
    good: 'The reader continues.',
    instead: '"continues"',
  },
  {
    pattern: /\bso (many|long|often|much)\b(?! (that|as)\b)/gi,
    bad: 'So many bytes fit into a batch.',
    good: 'The name is so long that the line wraps.',
    instead: '"number of", "maximum", or the unit',
  },
  {
    pattern: /\bthose (that|of|who|whose|which)\b/gi,
    bad: 'It drops those that are older.',
    good: 'The cache evicts older entries.',
    instead: 'the noun',
  },
  {
    pattern: /\b(is|are|was|were|has|have) gone\b/gi,
    bad: 'The row is gone.',
    good: 'The row was deleted.',
    instead: '"deleted", "expired", or "evicted"',
  },
  {
    pattern: /\b(of|for|with|by|to|from|as) what (is|was|it|they|has|had|the|a|an|came|comes)\b/gi,
    bad: 'A copy of what is there.',
    good: 'A copy of the stored rows.',
    instead: 'the noun',
  },
  {
    pattern: /\bwhat (came|comes|waits|waited|lies|stands|remains|follows|went)\b/gi,
    bad: 'It keeps what comes later.',
    good: 'The buffer keeps later records.',
    instead: 'the noun',
  },
  {
    pattern: /\b(that|it|which|and) (is|are|was|were) none\b/gi,
    bad: 'A body that is none.',
    good: 'Undefined if no reader is configured.',
    instead: '"no" with the noun',
  },
  {
    pattern: /\bfor ever\b/gi,
    bad: 'It waits for ever.',
    good: 'The reader waits without a limit.',
    instead: '"without a limit" or "permanently"',
  },
  {
    pattern: /\ball the same\b/gi,
    bad: 'It is written all the same.',
    good: 'The row is written anyway.',
    instead: '"anyway"',
  },
  {
    pattern: /\b(a|the|each|every|this|that|such) cuts?\b|\bcut short\b|\blog (is|was|has been) cut\b/gi,
    bad: 'A cut of the log.',
    good: 'Cut the cable, and the client reconnects.',
    instead: '"truncation" or "truncated"',
  },
  {
    pattern: /\b(a|the|each|every|next|last|first|one) looks?\b(?! (like|at)\b)/gi,
    bad: 'Each look takes a second.',
    good: 'Each check takes a second.',
    instead: '"check", "read", or "poll"',
  },
  {
    pattern: /\b(is|are|was|were) of (a|an|the|no|one|another|this|that|its|their|several)\b/gi,
    bad: 'The row is of another log.',
    good: 'The row belongs to another log.',
    instead: '"belongs to" or "comes from"',
  },
  {
    pattern: /\b(undefined|null|empty|true|false) where\b/gi,
    bad: 'Undefined where the log is embedded.',
    good: 'Undefined if the log is embedded.',
    instead: '"if"',
  },
  {
    pattern: /\b(has|have|had|not) come\b/gi,
    bad: 'The answer has not come.',
    good: 'The response has not arrived.',
    instead: '"arrived"',
  },
  {
    pattern: /\bis to be\b|\bare to be\b/gi,
    bad: 'The row is to be deleted.',
    good: 'The row must be deleted.',
    instead: '"must" or "will"',
  },
  {
    pattern: /\bby and by\b|\bin vain\b|\bhence\b|\bthereby\b|\bherein\b|\bwherever\b/gi,
    bad: 'It asks in vain.',
    good: 'The request fails.',
    instead: 'a plain word',
  },
];
