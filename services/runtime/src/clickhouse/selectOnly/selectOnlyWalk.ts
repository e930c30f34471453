/**
 * Walks the tree of a SELECT and finds what is not allowed in it: a kind of node, a function, a table function or a table
 * that is on no list. It answers a sentence for the first of them, or undefined when the question only reads and computes.
 */
import { functionArgumentFault, membership, tableFunctionArgumentFault } from './selectOnlyArguments.ts';
import type { Token } from './selectOnlyLexer.ts';
import { allowedSystemTables, allowedTableFunctions, isAllowedFunction } from './selectOnlyPolicy.ts';
import { type Scopes, scopesOf } from './selectOnlyScopes.ts';
import type { StandIn } from './selectOnlyStandIn.ts';
import type { TreeNode } from './selectOnlyTree.ts';

/** What the tokens have told already: how many clauses were checked there, and what stands for what. */
export type Known = {
  readonly settings: number;
  readonly applies: number;
  readonly tokens: readonly Token[];
  readonly stand: StandIn;
  isTable(name: string): boolean;
};

export function treeFault(root: TreeNode, known: Known): string | undefined {
  if (root.kind !== 'SelectWithUnionQuery') return `a ${root.kind} is not allowed, only a SELECT is`;
  const nodes = flatten(root);
  if (count(nodes, 'Set') !== known.settings) return 'SETTINGS takes name = value pairs';
  if (count(nodes, 'ColumnsApplyTransformer') !== known.applies) return 'this form of APPLY is not allowed';
  if (count(nodes, 'TableExpression') > maxTables) return `a query reads at most ${maxTables} tables`;
  const tableExpressions = nodes.filter((node) => node.kind === 'TableExpression');
  const scope = {
    ...scopesOf(nodes, known.tokens, known.stand),
    isTable: (name: string) => known.isTable(writtenName(name, known.stand)),
    tableFunctions: new Set(tableExpressions.flatMap((node) => node.children)),
  };
  for (const node of nodes) {
    const fault = nodeFault(node, scope);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** True for a table of the database, with or without its name, and for the tables of `system` that are on the list. */
export function isReadable(name: string, database: string, tables: readonly string[]): boolean {
  if (allowedSystemTables.has(name)) return true;
  const own = name.startsWith(`${database}.`) ? name.slice(database.length + 1) : name;
  return /^\w+$/.test(own) && tables.includes(own);
}

/** The engine spent 46 s on the plan of a join of 1,000 tables, past the limit of time that was set. */
const maxTables = 64;

const allowedKinds: ReadonlySet<string> = new Set([
  'SelectWithUnionQuery',
  'SelectIntersectExceptQuery',
  'SelectQuery',
  'ExpressionList',
  'Identifier',
  'Literal',
  'Function',
  'Subquery',
  'WithElement',
  'Asterisk',
  'QualifiedAsterisk',
  'ColumnsListMatcher',
  'ColumnsRegexpMatcher',
  'QualifiedColumnsListMatcher',
  'QualifiedColumnsRegexpMatcher',
  'ColumnsTransformerList',
  'ColumnsApplyTransformer',
  'ColumnsExceptTransformer',
  'ColumnsReplaceTransformer',
  'ColumnsReplaceTransformer::Replacement',
  'TablesInSelectQuery',
  'TablesInSelectQueryElement',
  'TableExpression',
  'TableIdentifier',
  'TableJoin',
  'ArrayJoin',
  'SampleRatio',
  'WindowDefinition',
  'WindowListElement',
  'OrderByElement',
  'InterpolateElement',
  'Set',
]);

/** The name as the question wrote it, when each of its parts is a plain one. */
function writtenName(name: string, stand: StandIn): string {
  const parts = name.split('.').map((part) => {
    const written = stand.placeOf(part)?.name ?? part;
    return /^\w+$/.test(written) ? written : part;
  });
  return parts.join('.');
}

/** `tableFunctions` are the nodes that stand in FROM; every other function is one of an expression. */
type Scope = Scopes & {
  readonly tableFunctions: ReadonlySet<TreeNode>;
  isTable(name: string): boolean;
};

function flatten(root: TreeNode): TreeNode[] {
  const nodes: TreeNode[] = [];
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    nodes.push(node);
    waiting.push(...node.children.toReversed());
  }
  return nodes;
}

function count(nodes: readonly TreeNode[], kind: string): number {
  return nodes.filter((node) => node.kind === kind).length;
}

function nodeFault(node: TreeNode, scope: Scope): string | undefined {
  if (!allowedKinds.has(node.kind)) return `${node.kind} is not allowed in a query`;
  switch (node.kind) {
    case 'SelectWithUnionQuery':
      return outputFault(node);
    case 'TableExpression':
      return tableExpressionFault(node, scope);
    case 'TableIdentifier':
      return tableFault(node, scope);
    case 'Function':
      return functionFault(node, scope);
    default:
      return undefined;
  }
}

/** Behind its list of selects the node only has children for INTO OUTFILE, FORMAT and their SETTINGS. */
function outputFault(node: TreeNode): string | undefined {
  if (node.children.length === 1 && node.children[0]?.kind === 'ExpressionList') return undefined;
  if (node.children.some((child) => child.kind === 'Literal')) return 'INTO OUTFILE is not allowed';
  return 'FORMAT is not allowed: the answer is in the format JSON';
}

function tableExpressionFault(node: TreeNode, scope: Scope): string | undefined {
  const [table, ...others] = node.children;
  if (others.some((child) => child.kind !== 'SampleRatio')) return 'this form of FROM is not allowed';
  if (table?.kind === 'Subquery' || table?.kind === 'TableIdentifier') return undefined;
  if (table?.kind !== 'Function') return `FROM ${table?.kind ?? 'nothing'} is not allowed`;
  if (!allowedTableFunctions.has(table.name)) {
    const view = scope.isTable(table.name) ? ' (a view with parameters)' : '';
    return `the table function ${table.name}${view} is not allowed`;
  }
  return tableFunctionArgumentFault(table.name, table.children[0]?.children ?? []);
}

function tableFault(node: TreeNode, scope: Scope): string | undefined {
  if (scope.isTable(node.name) || scope.isSubquery(node)) return undefined;
  return `the table ${node.name} is not allowed`;
}

function functionFault(node: TreeNode, scope: Scope): string | undefined {
  if (scope.tableFunctions.has(node) || node.name === 'lambda') return undefined;
  const args = node.children[0]?.children ?? [];
  if (!isAllowedFunction(node.name)) return `the function ${node.name} is not allowed`;
  if (membership.has(node.name.toLowerCase())) {
    const name = args.slice(1).find((arg) => arg.kind === 'Identifier' && isForeign(arg, scope))?.name;
    if (name !== undefined) {
      return `IN may not read ${name}: it is no table of the database (for an array there is has(array, element))`;
    }
  }
  return functionArgumentFault(node.name, args, node.children[1]?.children ?? []);
}

function isForeign(name: TreeNode, scope: Scope): boolean {
  return scope.isSecondName(name) || (tableFault(name, scope) !== undefined && !scope.isValue(name));
}
