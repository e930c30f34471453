/**
 * Bodies as the product takes them: the types that validate are asked after `null` in an optional field was left out, and
 * a document that does not say so has clients refuse what is taken. Pure.
 */

interface Schema {
  readonly description?: string;
  readonly type?: string;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

/** @param allowsEmpty an empty optional text is as if it were omitted. */
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

/** What a type of fields does not say of a report. */
export const REPORT_RULES = {
  allOf: [
    {
      description: 'A report has at least one of them.',
      anyOf: [
        { required: ['report'], properties: { report: { type: 'object' } } },
        { required: ['sessionId'], properties: { sessionId: { type: 'string', minLength: 1 } } },
        { required: ['events'], properties: { events: { type: 'array', minItems: 1 } } },
        { required: ['eventIds'], properties: { eventIds: { type: 'array', minItems: 1 } } },
      ],
    },
    {
      description:
        'A `clientRequestId` makes the id: of a report that is filed for the first time only one of them is named.',
      anyOf: [
        { properties: { id: { enum: [null, ''] } } },
        { properties: { clientRequestId: { enum: [null, ''] } } },
      ],
    },
  ],
};
