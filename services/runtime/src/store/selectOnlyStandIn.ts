/**
 * The text that is given to the engine's parser for `EXPLAIN AST`: the same tokens, but with stand-ins for whatever
 * could look like a line of the printed tree. Strings and names with other than harmless characters are replaced, so
 * every line of the answer is one node, and what a node says is what the parser saw.
 */
import type { Token } from './selectOnlyLexer.ts';

/** `nameOf` gives back the name that a stand-in stands for, for the sentence that refuses it. */
export type StandIn = { readonly tokens: readonly Token[]; nameOf(text: string): string };

export function standIn(tokens: readonly Token[]): StandIn {
  const prefix = freePrefix(tokens);
  const names = new Map<string, string>();
  const replaced = tokens.map((token) => {
    if (token.kind === 'string') return harmlessString.test(token.text) ? token : opaqueString;
    if (token.kind !== 'quoted' || plainName.test(token.value)) return token;
    const name = names.get(token.value) ?? `${prefix}${names.size}`;
    names.set(token.value, name);
    return { kind: 'quoted', text: `\`${name}\``, value: name } as const;
  });
  const originals = new Map([...names].map(([value, name]) => [name, value]));
  return {
    tokens: replaced,
    nameOf: (text) =>
      text.replaceAll(new RegExp(`${prefix}\\d+`, 'g'), (name) => originals.get(name) ?? name),
  };
}

export const plainName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Types, dates, intervals and names of aggregates are strings whose content the parser or we look at. `'a.b'` stays out,
 * since a string after FROM is a table's name and would print as the table `b` of the database `a`.
 */
const harmlessString = /^'(?!\w+(?:\.\w+)+')[A-Za-z0-9_ .,:;+\-*/%()[\]<>=!?&@#|~^]*'$/;
const opaqueString: Token = { kind: 'string', text: "'?'", value: "'?'" };

/** A prefix that no token of the question starts with: a stand-in must not be anything that the question can name. */
function freePrefix(tokens: readonly Token[]): string {
  let number = 0;
  const taken = (prefix: string): boolean =>
    tokens.some((token) => token.value.toLowerCase().replace(/^'/, '').startsWith(prefix));
  while (taken(`quoted${number}_`)) number += 1;
  return `quoted${number}_`;
}
