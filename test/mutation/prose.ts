/** Excludes texts from mutation: prose for people, and SQL, which only the tests on ClickHouse can check. */

/** The used part of Babel's `NodePath`. */
interface NodePath {
  readonly node: {
    readonly type: string;
    readonly value?: unknown;
    readonly quasis?: readonly { readonly value: { readonly raw: string } }[];
  };
  readonly listKey?: string | number | null;
  readonly parent?: { readonly callee?: Callee };
}

interface Callee {
  readonly property?: { readonly name?: string };
  readonly object?: Callee & { readonly name?: string };
}

/** Matches prose. Does not match `lane ·`, which is a name. */
const TWO_WORDS = /[a-z]+,? [a-z]{2,}/i;

/** Stryker calls this plugin for each node. The children of an ignored node are ignored too. */
export const strykerPlugins = [
  { kind: 'Ignore', name: 'prose', value: { shouldIgnore: (path: NodePath) => reasonToIgnore(path) } },
];

function reasonToIgnore({ node, listKey, parent }: NodePath): string | undefined {
  if (listKey === 'arguments' && isLogger(parent?.callee?.object)) {
    return 'a log message is for people: tests check the event name, not the message';
  }
  const text = textOf(node);
  if (/^\s*(SELECT|INSERT|ALTER|WITH)\b/.test(text)) return 'the tests on ClickHouse check the SQL';
  if (TWO_WORDS.test(text)) return 'prose is for people; programs read the code, which tests check';
  return undefined;
}

function isLogger(callee: Callee['object']): boolean {
  return callee?.name === 'logger' || callee?.property?.name === 'logger';
}

function textOf({ type, value, quasis }: NodePath['node']): string {
  if (type === 'StringLiteral') return String(value);
  return type === 'TemplateLiteral' ? (quasis ?? []).map((quasi) => quasi.value.raw).join('·') : '';
}
