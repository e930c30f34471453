/**
 * Converts TypeBox types to the JSON schemas of the API documentation. The schemas also allow `null`, because ingest treats a
 * `null` field as omitted.
 */

interface Schema {
  readonly description?: string;
  readonly type?: string;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

/** @param allowsEmpty true if ingest treats an empty string as an omitted field. */
export function acceptedSchema(schema: object, allowsEmpty = false): Schema {
  const { properties, required = [], items, anyOf, ...rest }: Schema = schema;
  return {
    ...rest,
    ...(anyOf && { anyOf: anyOf.map((one) => acceptedSchema(one, allowsEmpty)) }),
    ...(items && { items: acceptedSchema(items) }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, field]) => {
          const inside = acceptedSchema(field, allowsEmpty);
          return [name, required.includes(name) ? inside : optionalSchema(inside, allowsEmpty)];
        }),
      ),
      required,
    }),
  };
}

function optionalSchema({ description, ...field }: Schema, allowsEmpty: boolean): Schema {
  const described = description === undefined ? {} : { description };
  const alternatives: readonly Schema[] = field.anyOf ?? [field];
  const isNullable = alternatives.some(({ type }) => type === 'null');
  const isText = allowsEmpty && alternatives.some(({ type, ...more }) => type === 'string' || 'enum' in more);
  const empty = isText ? [{ type: 'string', const: '' }] : [];
  return { ...described, anyOf: [...alternatives, ...empty, ...(isNullable ? [] : [{ type: 'null' }])] };
}
