/**
 * Reads what `EXPLAIN AST` prints: one node a line, one space of indentation a level, the number of children at the end.
 * A line that is not of this form, or a count that is wrong, is no tree: whoever could forge one would have to get past
 * both.
 */

/** `name` is what stands behind the kind, without alias and count: a function's or table's name, a literal's value. */
export type TreeNode = {
  readonly kind: string;
  readonly name: string;
  readonly alias: string | undefined;
  readonly children: readonly TreeNode[];
};

/** The root, or undefined when the text is no tree. */
export function readTree(text: string): TreeNode | undefined {
  const lines = text.replace(/\n+$/, '').replace(/^\n+/, '').split('\n');
  const root = readLine(lines[0] ?? '');
  if (root?.depth !== 0) return undefined;
  const path: Growing[] = [root];
  for (const text of lines.slice(1)) {
    const node = readLine(text);
    if (node === undefined || node.depth < 1 || node.depth > path.length) return undefined;
    path.length = node.depth;
    path.at(-1)?.children.push(node);
    path.push(node);
  }
  return isComplete(root) ? root : undefined;
}

type Growing = TreeNode & { readonly depth: number; readonly count: number; readonly children: Growing[] };

const line = /^( *)([A-Za-z][A-Za-z:]*)(?: (.*?))??(?: \(alias (\w+)\))?(?: \(children (\d+)\))?$/;

function readLine(text: string): Growing | undefined {
  const parts = line.exec(text);
  if (parts === null) return undefined;
  return {
    depth: (parts[1] ?? '').length,
    kind: parts[2] ?? '',
    name: parts[3] ?? '',
    alias: parts[4],
    count: Number(parts[5] ?? 0),
    children: [],
  };
}

function isComplete(node: Growing): boolean {
  return node.children.length === node.count && node.children.every(isComplete);
}
