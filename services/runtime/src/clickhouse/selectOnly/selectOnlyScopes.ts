/**
 * The names that WITH gives, and where they hold. Outside of its scope, and inside of its own definition, the name of a
 * common table expression is the name of a table: `WITH t AS (SELECT * FROM t) SELECT * FROM t` reads a table `t` that may
 * be on no list. Scopes are judged narrower than the engine does, never wider.
 */

import type { Token } from './selectOnlyLexer.ts';
import { contentOf, type StandIn } from './selectOnlyStandIn.ts';
import type { TreeNode } from './selectOnlyTree.ts';

export type Scopes = {
  /** True when the name at this node, in FROM or behind IN, is the one of a common table expression. */
  isSubquery(node: TreeNode): boolean;
  /** True when another name has the one at this node as its alias: behind IN the engine takes it for a table of that name. */
  isSecondName(node: TreeNode): boolean;
  /** True when the name at this node, behind IN, is an alias of a value. */
  isValue(node: TreeNode): boolean;
};

/** `nodes` are all of the tree, `tokens` the ones of the question. */
export function scopesOf(nodes: readonly TreeNode[], tokens: readonly Token[], stand: StandIn): Scopes {
  const parents = new Map(nodes.flatMap((node) => node.children.map((child) => [child, node] as const)));
  const renamed = nodes.filter((node) => node.kind === 'Identifier');
  const secondNames = new Set(
    renamed.flatMap(({ alias }) => (alias === undefined ? [] : stand.nameOf(alias))),
  );
  const items = new Map<string, TreeNode | undefined>();
  const itemOf = (name: string): TreeNode | undefined => {
    if (!items.has(name)) items.set(name, onlyItem(name, nodes, tokens, parents));
    return items.get(name);
  };
  return {
    isSubquery: (node) => isSubquery(node, parents, stand),
    isSecondName: (node) => secondNames.has(stand.nameOf(node.name)),
    isValue: (node) => isValue(node, itemOf(node.name), parents),
  };
}

type Parents = ReadonlyMap<TreeNode, TreeNode>;

function isSubquery(node: TreeNode, parents: Parents, stand: StandIn): boolean {
  const name = stand.placeOf(node.name)?.name;
  if (name === undefined) return false;
  const path = pathOf(node, parents);
  for (const [index, ancestor] of path.entries()) {
    const items = scopeOpenedBy(ancestor, path.slice(0, index));
    const own = items.findIndex((item) => path.includes(item));
    const before = own === -1 ? items : items.slice(0, own);
    if (before.some((item) => definition(item, stand)?.name === name)) return true;
    const self = items[own];
    const isSelf = self !== undefined && definition(self, stand)?.name === name;
    if (isSelf && isRepeated(path.slice(0, index), self, stand)) return true;
    if (isView(ancestor, parents)) return false;
  }
  return false;
}

/** From the node up to the root. */
function pathOf(node: TreeNode, parents: Parents): TreeNode[] {
  const path: TreeNode[] = [];
  for (let at: TreeNode | undefined = node; at !== undefined; at = parents.get(at)) path.push(at);
  return path;
}

/**
 * The items of the WITH of a SELECT. An item only knows the ones before it: the engine would look forward too, and when two
 * name each other, it reads a table. The WITH of the first member of a UNION also holds for a member that has none itself;
 * `path` leads to this node.
 */
function scopeOpenedBy(node: TreeNode, path: readonly TreeNode[]): readonly TreeNode[] {
  if (node.kind === 'SelectQuery') return withItems(node);
  const isUnion = node.kind === 'ExpressionList' || node.kind === 'SelectIntersectExceptQuery';
  const [first] = node.children;
  const member = path.at(-1);
  if (!isUnion || first?.kind !== 'SelectQuery' || member?.kind !== 'SelectQuery') return [];
  return member.children[1]?.kind === 'ExpressionList' ? [] : withItems(first);
}

function withItems(select: TreeNode): readonly TreeNode[] {
  const items = select.children[0]?.children ?? [];
  return items.some((item) => item.kind === 'WithElement') ? items : [];
}

/** A view in FROM does not know the names around it. */
function isView(node: TreeNode, parents: Parents): boolean {
  return node.kind === 'Function' && parents.get(node)?.kind === 'TableExpression';
}

/** The name that the mark in the body of a common table expression stands for. */
function definition(element: TreeNode, stand: StandIn): { name: string; isRecursive: boolean } | undefined {
  const mark = element.kind === 'WithElement' ? wrapper(element)?.children[0]?.children[0] : undefined;
  return mark?.kind === 'Identifier' ? stand.placeOf(mark.name) : undefined;
}

/** `SELECT mark FROM (…)`, which was put around the body. */
function wrapper(element: TreeNode): TreeNode | undefined {
  return element.children[0]?.children[0]?.children[0]?.children[0];
}

/**
 * A recursive query reads its own rows in the members of its UNION behind the first, and there only in their own FROM:
 * anywhere else in its body the engine was seen to read the table of that name. `path` is what lies below the SELECT.
 */
function isRepeated(path: readonly TreeNode[], element: TreeNode, stand: StandIn): boolean {
  if (!definition(element, stand)?.isRecursive) return false;
  const body = wrapper(element)?.children[1]?.children[0]?.children[0]?.children[0]?.children[0]?.children[0];
  const member = path.find((node) => node.kind === 'SelectQuery');
  return member !== undefined && body !== undefined && body.children.indexOf(member) > 0;
}

/**
 * `WITH [1, 2] AS wanted … IN wanted`: the node of the alias, when it is an item of WITH or SELECT and nothing else has its
 * name. Else the engine was seen to read the table, so every place of the name has to be accounted for.
 */
function onlyItem(
  name: string,
  nodes: readonly TreeNode[],
  tokens: readonly Token[],
  parents: Parents,
): TreeNode | undefined {
  const [item, another] = nodes.filter((node) => node.alias === name);
  if (item === undefined || another !== undefined) return undefined;
  const read = nodes.filter((node) => node.kind === 'Identifier' && node.name === name).length;
  if (tokens.filter((token) => contentOf(token) === name).length !== read + 1) return undefined;
  if (nodes.some((node) => node.name === 'lambda' && hasParameter(node, name))) return undefined;
  const list = parents.get(item);
  const select = list && parents.get(list);
  return select?.kind === 'SelectQuery' && select.children[0] === list ? item : undefined;
}

/** The alias holds in the query that it is an item of, but not in its own expression. */
function isValue(node: TreeNode, item: TreeNode | undefined, parents: Parents): boolean {
  if (item === undefined) return false;
  const path = pathOf(node, parents);
  const select = pathOf(item, parents)[2];
  const isAround = select !== undefined && path.includes(select) && !path.includes(item);
  return isAround && !path.some((ancestor) => isView(ancestor, parents));
}

function hasParameter(lambda: TreeNode, name: string): boolean {
  const parameters = lambda.children[0]?.children[0]?.children[0]?.children ?? [];
  return parameters.some((parameter) => parameter.name === name);
}
