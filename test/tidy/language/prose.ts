/** Extracts prose: the comments of sources and the paragraphs of Markdown, without code, tables, quotations, and questions. */

/** A sentence and the 1-based line on which the sentence's comment or paragraph starts. */
export interface Sentence {
  readonly line: number;
  readonly text: string;
}

export interface Prose {
  readonly sentences: readonly Sentence[];
  /** Number of lines of comments or paragraphs. */
  readonly lines: number;
  readonly words: number;
}

/** A comment or a paragraph. */
export interface Block {
  readonly line: number;
  readonly lines: readonly string[];
}

/** @param path decides the syntax: TypeScript, JavaScript and Rust, Python and shell, SQL, or Markdown. */
export function proseOf(path: string, text: string): Prose {
  const blocks = blocksOf(path, text);
  const sentences = blocks.flatMap(({ line, lines }) =>
    sentencesIn(withoutCode(lines.join(' '))).map((sentence) => ({ line, text: sentence })),
  );
  return {
    sentences,
    lines: blocks.reduce((sum, block) => sum + block.lines.length, 0),
    words: sentences.reduce((sum, { text: words }) => sum + words.split(/\s+/).length, 0),
  };
}

/** Returns the comments of a source or the paragraphs of a page, with code and quotations. */
export function blocksOf(path: string, text: string): Block[] {
  return path.endsWith('.md') ? paragraphs(text) : comments(text, markersOf(path));
}

/** Returns the string literals of a source that are sentences: at least five words on one line, such as messages and test titles. */
export function textsOf(text: string): Sentence[] {
  return text.split('\n').flatMap((source, index) =>
    [...source.matchAll(/'((?:[^'\\]|\\.)*)'|`([^`]*)`/g)]
      .map(([, single, template]) => single ?? template ?? '')
      .filter(
        (literal) =>
          /^\W*\w+(\W+\w+){4}/.test(literal) && !/^\s*(SELECT|INSERT|CREATE|ALTER)\b/.test(literal),
      )
      .flatMap((literal) => sentencesIn(withoutCode(literal.replace(/\$\{[^}]*\}/g, 'value'))))
      .map((sentence) => ({ line: index + 1, text: sentence })),
  );
}

interface Markers {
  readonly line: string;
  readonly block: readonly [begin: string, end: string] | undefined;
}

function markersOf(path: string): Markers {
  if (path.endsWith('.sql')) return { line: '--', block: undefined };
  if (path.endsWith('.py')) return { line: '#', block: ['"""', '"""'] };
  if (/\.(sh|ya?ml|toml)$|Dockerfile/.test(path)) return { line: '#', block: undefined };
  return { line: '//', block: ['/*', '*/'] };
}

/** Collects comments that have a line of their own; line comments that follow each other are one comment. */
function comments(text: string, { line: mark, block }: Markers): Block[] {
  const blocks: { line: number; lines: string[] }[] = [];
  let inBlock = false;
  let isLineComment = false;
  for (const [index, raw] of text.split('\n').entries()) {
    const trimmed = raw.trim();
    if (inBlock) {
      inBlock = !trimmed.includes(block?.[1] ?? '');
      blocks.at(-1)?.lines.push(withoutMarks(trimmed));
      continue;
    }
    if (block !== undefined && trimmed.startsWith(block[0])) {
      blocks.push({ line: index + 1, lines: [withoutMarks(trimmed)] });
      inBlock = !trimmed.slice(block[0].length).includes(block[1]);
      isLineComment = false;
    } else if (trimmed.startsWith(mark)) {
      if (!isLineComment) blocks.push({ line: index + 1, lines: [] });
      blocks.at(-1)?.lines.push(withoutMarks(trimmed));
      isLineComment = true;
    } else isLineComment = false;
  }
  return blocks;
}

function withoutMarks(line: string): string {
  return line.replace(/^(\/\*\*?|\*\/|\*|\/\/[/!]?|#+!?|--|""")\s?/, '').replace(/\s*(\*\/|""")$/, '');
}

/** Collects paragraphs and list items; skips code, tables, quotations, headings, and HTML. */
function paragraphs(text: string): Block[] {
  const blocks: { line: number; lines: string[] }[] = [];
  let fence = false;
  let isOpen = false;
  for (const [index, raw] of text.split('\n').entries()) {
    const trimmed = raw.trim();
    if (/^(```|~~~)/.test(trimmed)) fence = !fence;
    if (fence || trimmed === '' || /^(```|~~~|\||>|#|<|!\[)/.test(trimmed)) {
      isOpen = false;
      continue;
    }
    const isItem = /^([-*+]|\d+\.)\s/.test(trimmed);
    if (!isOpen || isItem) blocks.push({ line: index + 1, lines: [] });
    blocks.at(-1)?.lines.push(trimmed.replace(/^([-*+]|\d+\.)\s+/, ''));
    isOpen = true;
  }
  return blocks;
}

/** Replaces code, quotations, and addresses by a word, so that sentences keep their length. */
function withoutCode(text: string): string {
  return text
    .replace(/`[^`]*`/g, 'code')
    .replace(/"[^"]*"|“[^”]*”/g, 'quotation')
    .replace(/\]\([^)]*\)/g, ']')
    .replace(/https?:\/\/\S+/g, 'address')
    .replace(/[*_[\]]+/g, '');
}

/** The words of a tag are a sentence. */
const TAG = /\s*@(?=(?:param|returns|throws)\b)/;

export function sentencesIn(text: string): string[] {
  return text
    .split(TAG)
    .flatMap((part) => part.split(/(?<=[.!?:])\s+(?=[A-Z“])/))
    .map((sentence) => sentence.trim())
    .filter((sentence) => /[a-z]/i.test(sentence) && !sentence.endsWith('?'));
}
