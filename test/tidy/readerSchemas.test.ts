/** Tests that the schemas for readers are the registered schemas with other names, and that each type has its own name. */
import { parseSchema } from '@questlog/schemas/topics/contract';
import { expect, test } from 'vitest';
import { projectFiles, textOf } from './projectFiles.ts';
import { CONTRACTS, READERS, readerSchemas } from './reference/readerSchemas.ts';

const schemas = readerSchemas();

test('the files are up to date with their sources', () => {
  const files = projectFiles().filter((path) => path.startsWith(`${READERS}/`) && path.endsWith('.avsc'));
  expect(files.toSorted()).toEqual(Object.keys(schemas).toSorted());
  for (const [path, text] of Object.entries(schemas)) {
    expect(textOf(path), `${path} is not up to date; run: npm run docs:reference`).toBe(text);
  }
});

test('a schema differs from the registered schema only in its namespace and its aliases', () => {
  for (const { subject, schema } of CONTRACTS) {
    const text = schemas[`${READERS}/${subject}.avsc`] ?? '';
    const renamed = JSON.parse(text, (key, value) => (key === 'aliases' ? undefined : value));
    expect({ ...renamed, namespace: 'questlog.v1' }).toEqual(JSON.parse(schema));
    // Resolves the registered names by the aliases.
    parseSchema(text).createResolver(parseSchema(schema));
  }
});

test('no two subjects define the same name, unlike Event in the registered schemas', () => {
  const repeated = (texts: readonly string[]) => {
    const names = texts.flatMap((text) => [...namesIn(JSON.parse(text))]);
    return [...new Set(names.filter((name, at) => names.indexOf(name) !== at))];
  };
  expect(repeated(CONTRACTS.map(({ schema }) => schema))).toContain('questlog.v1.Event');
  expect(repeated(Object.values(schemas))).toEqual([]);
});

/** Returns the full names of the types that a schema defines. */
function namesIn(schema: { namespace: string }): Set<string> {
  const found = new Set<string>();
  JSON.stringify(schema, (_, part) => {
    if (['record', 'enum', 'fixed'].includes(part?.type)) found.add(`${schema.namespace}.${part.name}`);
    return part;
  });
  return found;
}
