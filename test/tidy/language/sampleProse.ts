/**
 * `npm run sample:language -- <seed>`: prints 100 comments of the product and 40 sentences of Markdown, drawn at random. A
 * reader who does not know the code marks each text that has to be read twice.
 */
import { projectFiles, textOf } from '../projectFiles.ts';
import { blocksOf, sentencesIn } from './prose.ts';

const COMMENTS = 100;
const SENTENCES = 40;
const PRODUCT = /^(services|schemas\/src|deploy|examples)\/.*\.ts$/;

const seed = Number(process.argv[2] ?? Math.floor(Math.random() * 2 ** 32));
const random = randomFrom(seed);
const files = projectFiles();

const comments = files
  .filter((path) => PRODUCT.test(path) && !/\.test\.ts$|testing/.test(path))
  .flatMap((path) => blocksOf(path, textOf(path)).map(({ lines }) => lines.join(' ').trim()))
  .filter((comment) => /\w \w/.test(comment));
const sentences = files
  .filter((path) => path.endsWith('.md'))
  .flatMap((path) => blocksOf(path, textOf(path)).flatMap(({ lines }) => sentencesIn(lines.join(' '))))
  .filter((sentence) => sentence.split(' ').length > 3);

console.log(
  `seed ${seed}: ${COMMENTS} of ${comments.length} comments, ${SENTENCES} of ${sentences.length} sentences`,
);
for (const [index, text] of [...drawn(comments, COMMENTS), ...drawn(sentences, SENTENCES)].entries())
  console.log(`${index + 1}. ${text}`);

function drawn(texts: readonly string[], count: number): string[] {
  const left = [...texts];
  return Array.from({ length: count }, () => left.splice(Math.floor(random() * left.length), 1)[0] ?? '');
}

/** A linear congruential generator with the constants of Numerical Recipes; returns numbers from 0 to below 1. */
function randomFrom(start: number): () => number {
  let state = start >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
