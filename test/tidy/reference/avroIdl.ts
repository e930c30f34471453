/** An Avro schema in the notation of Avro's IDL, which takes half the words of JSON. */

type Schema = string | readonly Schema[] | SchemaObject;

interface SchemaObject {
  readonly type: Schema;
  readonly name?: string;
  readonly logicalType?: string;
  readonly doc?: string;
  readonly fields?: readonly Field[];
  readonly symbols?: readonly string[];
  readonly size?: number;
  readonly items?: Schema;
  readonly values?: Schema;
}

interface Field {
  readonly name: string;
  readonly type: Schema;
  readonly default?: unknown;
  readonly doc?: string;
}

const LOGICAL: Readonly<Record<string, string>> = {
  uuid: 'uuid',
  'timestamp-millis': 'timestamp_ms',
  'timestamp-micros': 'timestamp_us',
};

/** Returns the named types of a schema, inner types first. @param shown declarations that are already on the page; grows. */
export function idlOf(schema: Schema, shown: Set<string>): string[] {
  return declarationsOf(schema).filter((text) => {
    const isNew = !shown.has(text);
    shown.add(text);
    return isNew;
  });
}

function declarationsOf(schema: Schema): string[] {
  if (typeof schema === 'string') return [];
  if (isUnion(schema)) return schema.flatMap(declarationsOf);
  const { type, name = '', doc, fields = [], symbols = [], size, items = 'null', values = 'null' } = schema;
  if (type === 'enum') return [`enum ${name} { ${symbols.join(', ')} }`];
  if (type === 'fixed') return [`fixed ${name}(${size});`];
  if (type !== 'record') return [type, items, values].flatMap(declarationsOf);
  const inner = fields.flatMap((field) => declarationsOf(field.type));
  const head = doc === undefined ? [] : [`/** ${doc} */`];
  return [...inner, [...head, `record ${name} {`, ...fields.map(fieldLine), '}'].join('\n')];
}

function fieldLine({ name, type, default: value, doc = docOf(type) }: Field): string {
  const given = value === undefined || value === null ? '' : ` = ${JSON.stringify(value)}`;
  return `  ${nameOf(type)} ${name}${given};${doc === undefined ? '' : ` // ${doc}`}`;
}

function docOf(type: Schema): string | undefined {
  return typeof type === 'string' || isUnion(type) || type.type === 'record' ? undefined : type.doc;
}

function nameOf(schema: Schema): string {
  if (typeof schema === 'string') return schema.split('.').at(-1) ?? schema;
  if (isUnion(schema)) {
    const others = schema.filter((one) => one !== 'null').map(nameOf);
    return others.length === 1 ? `${others[0]}?` : `union { ${schema.map(nameOf).join(', ')} }`;
  }
  const { type, name, logicalType = '', items = 'null', values = 'null' } = schema;
  if (type === 'array') return `array<${nameOf(items)}>`;
  if (type === 'map') return `map<${nameOf(values)}>`;
  return LOGICAL[logicalType] ?? name ?? nameOf(type);
}

function isUnion(schema: Schema): schema is readonly Schema[] {
  return Array.isArray(schema);
}
