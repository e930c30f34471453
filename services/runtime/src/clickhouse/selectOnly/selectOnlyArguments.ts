/**
 * The few functions and table functions that read a string as a declaration and run the expressions in it: an aggregate
 * with parameters (`arrayReduce('groupConcat(file(…))', …)` returned the file), columns with a DEFAULT, rows in a format.
 * Their string has to be written out, and to be one that holds names, types and numbers only.
 */
import { allowedColumnTypes, allowedRowFormats, isAllowedAggregate } from './selectOnlyPolicy.ts';
import type { TreeNode } from './selectOnlyTree.ts';

/** Functions whose second argument is a table when it is a name. */
export const membership: ReadonlySet<string> = new Set(
  ['in', 'notin', 'nullin', 'notnullin'].flatMap((name) => [name, `global${name}`]),
);

/** True for a function that may only be called where its arguments can be looked at. */
export function readsItsArguments(name: string): boolean {
  const lower = name.toLowerCase();
  return (
    membership.has(lower) || aggregateByName.has(lower) || declarationByName.has(lower) || writesFormat(lower)
  );
}

export function functionArgumentFault(
  name: string,
  args: readonly TreeNode[],
  parameters: readonly TreeNode[],
): string | undefined {
  const lower = name.toLowerCase();
  if (aggregateByName.has(lower) && !isAggregateSpec(stringOf(args[0]))) {
    return `${name} takes the name of an aggregate function as a plain string, with numbers as its parameters`;
  }
  if (declarationByName.has(lower) && !isDeclaration(stringOf(args[0]))) return declarationSentence(name);
  if (
    writesFormat(lower) &&
    !allowedRowFormats.has(stringOf(lower.startsWith('group') ? parameters[0] : args[0]) ?? '')
  ) {
    return `${name} takes the name of a text format as a plain string, such as 'CSV' or 'JSONEachRow'`;
  }
  return undefined;
}

export function tableFunctionArgumentFault(name: string, args: readonly TreeNode[]): string | undefined {
  const lower = name.toLowerCase();
  const first = stringOf(args[0]);
  if (lower === 'values' && startsWithRow(args[0])) return undefined;
  if (lower === 'generaterandom' && args.length === 0) return undefined;
  if (lower === 'values' || lower === 'null' || lower === 'generaterandom') {
    return isDeclaration(first) ? undefined : declarationSentence(name);
  }
  if (lower !== 'format') return undefined;
  const format = first ?? (args[0]?.kind === 'Identifier' ? args[0].name : '');
  if (!allowedRowFormats.has(format)) return `the table function format does not allow the format ${format}`;
  if (args.length > 2 && !isDeclaration(stringOf(args[1]))) return declarationSentence(name);
  return undefined;
}

const aggregateByName = new Set(['arrayreduce', 'arrayreduceinranges', 'initializeaggregation']);
const declarationByName = new Set(['structuretocapnprotoschema', 'structuretoprotobufschema']);

function writesFormat(lower: string): boolean {
  return lower.startsWith('formatrow') || lower.startsWith('groupformat');
}

/** The content of a literal that is a string without escapes, else undefined. */
function stringOf(node: TreeNode | undefined): string | undefined {
  if (node?.kind !== 'Literal') return undefined;
  return /^'([^'\\]*)'$/.exec(node.name)?.[1];
}

/** `sum`, `quantileIf(0.9)`, `topK(3, 2)`. */
function isAggregateSpec(text: string | undefined): boolean {
  const parts = /^(\w+)(?:\([\d., ]*\))?$/.exec(text ?? '');
  return isAllowedAggregate(parts?.[1] ?? '') && !writesFormat((parts?.[1] ?? '').toLowerCase());
}

/** Without a declaration `values` takes rows; a string in their place would be read as a declaration. */
function startsWithRow(node: TreeNode | undefined): boolean {
  if (node?.kind === 'Literal') return !node.name.startsWith("'");
  return node?.kind === 'Function' && node.name === 'tuple';
}

function declarationSentence(name: string): string {
  return `${name} takes columns as a plain string of names and types, such as 'id UInt64, name String'`;
}

/** `name Type, …`, with only known types, so nothing can be a DEFAULT, an ALIAS or another expression. */
function isDeclaration(text: string | undefined): boolean {
  if (text === undefined || text.length > 2_000 || /[^\w ,()]/.test(text)) return false;
  const rest = text.match(/\w+|[,()]/g) ?? [];
  return readColumns(rest) && rest.length === 0;
}

function readColumns(rest: string[]): boolean {
  do {
    if (!/^[A-Za-z_]/.test(rest.shift() ?? '') || !readType(rest)) return false;
  } while (rest[0] === ',' && rest.shift() !== undefined);
  return true;
}

/** A type, its arguments being types, numbers or named types (`Tuple(x Int8)`). */
function readType(rest: string[]): boolean {
  if (!allowedColumnTypes.has(rest.shift() ?? '')) return false;
  if (rest[0] !== '(') return true;
  let before = rest.shift();
  while (before === '(' || before === ',') {
    if (!readTypeArgument(rest)) return false;
    before = rest.shift();
  }
  return before === ')';
}

function readTypeArgument(rest: string[]): boolean {
  if (/^\d+$/.test(rest[0] ?? '')) return rest.shift() !== undefined;
  const isNamed = /^[A-Za-z_]/.test(rest[0] ?? '') && /^[A-Za-z_]/.test(rest[1] ?? '');
  if (isNamed) rest.shift();
  return readType(rest);
}
