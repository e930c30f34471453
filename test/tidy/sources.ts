/**
 * Extracts facts about each TypeScript file from the compiler's syntax tree. The compiler's API is declared unstable;
 * `package-lock.json` fixes its version.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import {
  type Expression,
  type ImportDeclaration,
  isAsExpression,
  isAwaitExpression,
  isCallExpression,
  isElementAccessExpression,
  isExportAssignment,
  isExportDeclaration,
  isIdentifier,
  isImportDeclaration,
  isImportTypeNode,
  isLiteralTypeNode,
  isNamedImports,
  isNewExpression,
  isPropertyAccessExpression,
  isRegularExpressionLiteral,
  isStringLiteralLikeNode,
  isTypeReferenceNode,
  type Node,
  type SourceFile,
  SyntaxKind,
} from 'typescript/unstable/ast';
import { API } from 'typescript/unstable/sync';
import { projectFiles, ROOT, textOf } from './projectFiles.ts';

export interface Import {
  readonly specifier: string;
  /** Imported names; empty for a default or namespace import. */
  readonly names: readonly string[];
  readonly isTypeOnly: boolean;
  /** True for a dynamic import or a call of `require`. */
  readonly isLater: boolean;
  readonly line: number;
}

/** An expression or keyword such as `Date.now`, `setTimeout()`, `new Date()`, `async`, and `as`, or the text of a literal. */
export interface Mention {
  readonly text: string;
  readonly line: number;
}

export interface Source {
  readonly path: string;
  readonly imports: readonly Import[];
  readonly uses: readonly Mention[];
  readonly literals: readonly Mention[];
  /** Source texts of regular expressions. */
  readonly patterns: readonly Mention[];
}

/** Modules for browsers have their own tsconfig. */
const PROJECTS = ['tsconfig.base.json', 'services/console/ui/tsconfig.json'];

let parsed: ReadonlyMap<string, Source> | undefined;

/**
 * Returns every type-checked TypeScript file by its path from the root. Parsing takes seconds of CPU time, so the test files of
 * a worker share the result, and the workers of a run share it in a file.
 */
export function parseSources(): ReadonlyMap<string, Source> {
  parsed ??= parseOnce();
  return parsed;
}

function parseOnce(): ReadonlyMap<string, Source> {
  const hash = createHash('sha256');
  for (const path of projectFiles().filter((name) => /\.(ts|json)$/.test(name)))
    hash.update(`${path}\n`).update(textOf(path));
  const cache = join(ROOT, 'node_modules/.cache', `sources-${hash.digest('hex')}.json`);
  if (existsSync(cache)) return new Map(JSON.parse(readFileSync(cache, 'utf8')));
  const sources = parse();
  const folder = dirname(cache);
  mkdirSync(folder, { recursive: true });
  const isOther = (name: string) => /^sources-\w+\.json$/.test(name) && name !== basename(cache);
  for (const name of readdirSync(folder).filter(isOther)) rmSync(join(folder, name), { force: true });
  // Writes a temporary file and renames it, because another worker must not read an incomplete file.
  writeFileSync(`${cache}.${process.pid}`, JSON.stringify([...sources]));
  renameSync(`${cache}.${process.pid}`, cache);
  return sources;
}

function parse(): Map<string, Source> {
  const api = new API({ cwd: ROOT });
  const snapshot = api.updateSnapshot({ openProjects: PROJECTS.map((project) => ROOT + project) });
  const sources = new Map<string, Source>();
  for (const { program } of snapshot.getProjects()) {
    for (const fileName of program.getSourceFileNames()) {
      const path = fileName.startsWith(ROOT) ? fileName.slice(ROOT.length) : undefined;
      const file = program.getSourceFile(fileName);
      if (path === undefined || path.includes('node_modules/') || file === undefined) continue;
      sources.set(path, factsOf(path, file));
    }
  }
  snapshot.dispose();
  api.close();
  return sources;
}

function factsOf(path: string, file: SourceFile): Source {
  const imports: Import[] = [];
  const uses: Mention[] = [];
  const literals: Mention[] = [];
  const patterns: Mention[] = [];
  const visit = (node: Node): void => {
    const line = (): number => file.getLineAndCharacterOfPosition(node.end).line + 1;
    const imported = importOf(node, line);
    if (imported !== undefined) imports.push(imported);
    const use = useOf(node);
    if (use !== undefined) uses.push({ text: use, line: line() });
    if (isStringLiteralLikeNode(node)) literals.push({ text: node.text, line: line() });
    if (isRegularExpressionLiteral(node)) patterns.push({ text: node.text, line: line() });
    node.forEachChild(visit);
  };
  visit(file);
  return { path, imports, uses, literals, patterns };
}

function importOf(node: Node, line: () => number): Import | undefined {
  if (isImportDeclaration(node)) {
    const specifier = literalText(node.moduleSpecifier);
    return { ...importedNames(node), specifier, isLater: false, line: line() };
  }
  if (isExportDeclaration(node) && node.moduleSpecifier !== undefined) {
    const specifier = literalText(node.moduleSpecifier);
    return { specifier, names: [], isTypeOnly: node.isTypeOnly, isLater: false, line: line() };
  }
  if (isImportTypeNode(node) && isLiteralTypeNode(node.argument)) {
    const specifier = literalText(node.argument.literal);
    return { specifier, names: [], isTypeOnly: true, isLater: false, line: line() };
  }
  if (isCallExpression(node) && loadsModule(node.expression)) {
    const specifier = literalText(node.arguments[0]);
    if (specifier !== '') return { specifier, names: [], isTypeOnly: false, isLater: true, line: line() };
  }
  return undefined;
}

function importedNames({ importClause }: ImportDeclaration): Pick<Import, 'names' | 'isTypeOnly'> {
  const bindings = importClause?.namedBindings;
  const elements = bindings !== undefined && isNamedImports(bindings) ? [...bindings.elements] : [];
  const isTypeOnly =
    importClause?.phaseModifier === SyntaxKind.TypeKeyword ||
    (importClause?.name === undefined && elements.length > 0 && elements.every((one) => one.isTypeOnly));
  return { names: elements.map((one) => (one.propertyName ?? one.name).text), isTypeOnly };
}

/** True for `import(…)`, `require(…)`, and `require.resolve(…)`. */
function loadsModule(callee: Expression): boolean {
  if (callee.kind === SyntaxKind.ImportKeyword) return true;
  if (isPropertyAccessExpression(callee)) return useOf(callee) === 'require.resolve';
  return isIdentifier(callee) && callee.text === 'require';
}

function literalText(node: Node | undefined): string {
  return node !== undefined && isStringLiteralLikeNode(node) ? node.text : '';
}

function useOf(node: Node): string | undefined {
  if (isPropertyAccessExpression(node)) return `${nameOf(node.expression)}.${node.name.text}`;
  if (isElementAccessExpression(node)) {
    return `${nameOf(node.expression)}.${literalText(node.argumentExpression)}`;
  }
  if (isCallExpression(node) && isIdentifier(node.expression)) return `${node.expression.text}()`;
  if (isNewExpression(node) && isIdentifier(node.expression)) {
    return `new ${node.expression.text}(${(node.arguments?.length ?? 0) === 0 ? '' : '…'})`;
  }
  if (isAsExpression(node)) {
    const { type } = node;
    const isConst =
      isTypeReferenceNode(type) && isIdentifier(type.typeName) && type.typeName.text === 'const';
    return isConst ? undefined : 'as';
  }
  if (isAwaitExpression(node)) return 'await';
  if (node.kind === SyntaxKind.AsyncKeyword) return 'async';
  if (isExportAssignment(node) || node.kind === SyntaxKind.DefaultKeyword) return 'export default';
  return undefined;
}

function nameOf(node: Expression): string {
  return isIdentifier(node) ? node.text : '…';
}
