/** Counts openings and phrases that the project does not use, in the prose of files. */
import { OPENINGS, PHRASES } from './phrases.ts';
import { proseOf, type Sentence, textsOf } from './prose.ts';

export interface Figures {
  readonly commentLines: number;
  /** Openings per 1,000 lines of comments. */
  readonly openings: number;
  /** Phrases per 1,000 words of comments. */
  readonly commentPhrases: number;
  /** Phrases per 1,000 words of messages, test titles, and other texts in sources. */
  readonly textPhrases: number;
  /** Phrases per 1,000 words of Markdown. */
  readonly pagePhrases: number;
  /** One line for each opening and phrase: `path:line: "phrase"; use …`. */
  readonly findings: readonly string[];
}

export interface NamedText {
  readonly path: string;
  readonly text: string;
}

export function measureLanguage(files: readonly NamedText[]): Figures {
  const counted = { comments: new Count(), texts: new Count(), pages: new Count() };
  let commentLines = 0;
  let openings = 0;
  const findings: string[] = [];
  for (const { path, text } of files) {
    const { sentences, lines } = proseOf(path, text);
    const isPage = path.endsWith('.md');
    findings.push(...(isPage ? counted.pages : counted.comments).add(path, sentences));
    if (isPage) continue;
    commentLines += lines;
    const found = sentences.flatMap((sentence) => openingsOf(path, sentence));
    openings += found.length;
    findings.push(...found);
    if (/\.m?[jt]s$/.test(path)) findings.push(...counted.texts.add(path, textsOf(text)));
  }
  return {
    ...{ commentLines, findings },
    openings: (1000 * openings) / Math.max(1, commentLines),
    commentPhrases: counted.comments.perThousand(),
    textPhrases: counted.texts.perThousand(),
    pagePhrases: counted.pages.perThousand(),
  };
}

class Count {
  #words = 0;
  #phrases = 0;

  /** @returns a finding for each phrase. */
  add(path: string, sentences: readonly Sentence[]): string[] {
    const findings = sentences.flatMap((sentence) => phrasesOf(path, sentence));
    this.#phrases += findings.length;
    for (const { text } of sentences) this.#words += text.split(/\s+/).length;
    return findings;
  }

  perThousand(): number {
    return (1000 * this.#phrases) / Math.max(1, this.#words);
  }
}

function openingsOf(path: string, { line, text }: Sentence): string[] {
  return OPENINGS.flatMap(({ pattern, instead }) => {
    const found = pattern.exec(text)?.[0];
    return found === undefined ? [] : [`${path}:${line}: begins with "${found}"; use ${instead}`];
  });
}

function phrasesOf(path: string, { line, text }: Sentence): string[] {
  return PHRASES.flatMap(({ pattern, instead }) =>
    [...text.matchAll(pattern)].map(([found]) => `${path}:${line}: "${found}"; use ${instead}`),
  );
}
