/** Leaves out what Stryker should not mutate: words for people, and SQL, which only the tests on ClickHouse can judge. */

/** What of Babel's `NodePath` is asked. */
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

/** Not `lane ·`, which is a name. */
const TWO_WORDS = /[a-z]+,? [a-z]{2,}/i;

/** Stryker asks this plugin about each node; what is inside an ignored one is ignored, too. */
export const strykerPlugins = [
  { kind: 'Ignore', name: 'prose', value: { shouldIgnore: (path: NodePath) => reasonToIgnore(path) } },
];

function reasonToIgnore({ node, listKey, parent }: NodePath): string | undefined {
  if (listKey === 'arguments' && isLogger(parent?.callee?.object)) {
    return 'a log line is for people: that it is written is tested, its words are not';
  }
  const text = textOf(node);
  if (/^\s*(SELECT|INSERT|ALTER|WITH)\b/.test(text)) return 'SQL is judged by the tests on ClickHouse';
  if (TWO_WORDS.test(text)) return 'prose is for people; programs read the code beside it, which is tested';
  return undefined;
}

function isLogger(callee: Callee['object']): boolean {
  return callee?.name === 'logger' || callee?.property?.name === 'logger';
}

function textOf({ type, value, quasis }: NodePath['node']): string {
  if (type === 'StringLiteral') return String(value);
  return type === 'TemplateLiteral' ? (quasis ?? []).map((quasi) => quasi.value.raw).join('·') : '';
}
