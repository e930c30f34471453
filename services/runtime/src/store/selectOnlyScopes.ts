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
  /** True when the name at this node, behind IN, is an alias of a value. */
  isValue(node: TreeNode): boolean;
};

/** `nodes` are all of the tree, `tokens` the ones of the question. */
export function scopesOf(nodes: readonly TreeNode[], tokens: readonly Token[], stand: StandIn): Scopes {
  const parents = new Map(nodes.flatMap((node) => node.children.map((child) => [child, node] as const)));
  return {
    isSubquery: (node) => isSubquery(node, parents, stand),
    isValue: (node) => isValue(node, nodes, tokens, parents),
  };
}

type Parents = ReadonlyMap<TreeNode, TreeNode>;

function isSubquery(node: TreeNode, parents: Parents, stand: StandIn): boolean {
  const name = stand.placeOf(node.name)?.name;
  if (name === undefined) return false;
  const path = pathOf(node, parents);
  for (const [index, ancestor] of path.entries()) {
    const elements = scopeOpenedBy(ancestor).filter((element) => definition(element, stand)?.name === name);
    if (
      elements.some((element) => !path.includes(element) || isRepeated(path.slice(0, index), element, stand))
    ) {
      return true;
    }
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

/** The WITH of a SELECT holds in it; the one of the first member of a UNION holds in the others as well. */
function scopeOpenedBy(node: TreeNode): readonly TreeNode[] {
  const isUnion = node.kind === 'SelectIntersectExceptQuery' || node.kind === 'SelectWithUnionQuery';
  const members = node.kind === 'SelectWithUnionQuery' ? node.children[0]?.children : node.children;
  const select = isUnion ? members?.[0] : node;
  if (select?.kind !== 'SelectQuery') return [];
  return (select.children[0]?.children ?? []).filter((child) => child.kind === 'WithElement');
}

/** A view in FROM does not know the names around it. */
function isView(node: TreeNode, parents: Parents): boolean {
  return node.kind === 'Function' && parents.get(node)?.kind === 'TableExpression';
}

/** The name that the mark in the body of a common table expression stands for. */
function definition(element: TreeNode, stand: StandIn): { name: string; isRecursive: boolean } | undefined {
  const mark = wrapper(element)?.children[0]?.children[0];
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
 * `WITH [1, 2] AS wanted … IN wanted`: the only alias of that name, an item of WITH or SELECT of a query around. With
 * anything else of the same name the engine was seen to read the table, so every place of the name has to be accounted for.
 */
function isValue(
  node: TreeNode,
  nodes: readonly TreeNode[],
  tokens: readonly Token[],
  parents: Parents,
): boolean {
  const [item, another] = nodes.filter(({ alias }) => alias === node.name);
  if (item === undefined || another !== undefined) return false;
  const read = nodes.filter(({ kind, name }) => kind === 'Identifier' && name === node.name).length;
  if (tokens.filter((token) => contentOf(token) === node.name).length !== read + 1) return false;
  const path = pathOf(node, parents);
  const list = parents.get(item);
  const select = list && parents.get(list);
  if (path.includes(item) || select?.kind !== 'SelectQuery' || select.children[0] !== list) return false;
  const isParameter = nodes.some((other) => other.name === 'lambda' && hasParameter(other, node.name));
  return !isParameter && path.includes(select) && !path.some((ancestor) => isView(ancestor, parents));
}

function hasParameter(lambda: TreeNode, name: string): boolean {
  const parameters = lambda.children[0]?.children[0]?.children[0]?.children ?? [];
  return parameters.some((parameter) => parameter.name === name);
}
