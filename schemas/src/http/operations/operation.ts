/**
 * The declaration of an HTTP operation. The routes of both listeners, the OpenAPI documents, the reference page, and the
 * requests of the command line derive from the declarations.
 */
import type { Static, TSchema } from 'typebox';
import type { Scope } from '../../topics/directoryEntry.ts';

export interface Operation {
  readonly route: `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /${string}`;
  /** Scope of a project's token, or `anyone` if no token is needed. Undefined if the operation needs the admin token. */
  readonly access?: Scope | 'anyone';
  readonly summary: string;
  readonly description?: string;
  /** Parameters in the query, the headers, and the path. Omits UUIDs in the path, because the OpenAPI document adds them. */
  readonly parameters?: readonly Parameter[];
  readonly body?: TSchema;
  /**
   * `exact`: the route checks the body, and a null field does not count as omitted. `unchecked`: the handler checks the parsed
   * body. `unread`: the handler reads and checks the body. Undefined if the route checks the body and null counts as omitted.
   */
  readonly bodyMode?: 'exact' | 'unchecked' | 'unread';
  /** Schema of the request body in the OpenAPI document. Undefined if the document uses the schema `body`. */
  readonly shownBody?: object;
  readonly bodyType?: string;
  /**
   * Responses by status. A string is the description of a problem response. `openApiDocument` adds the responses that always
   * exist.
   */
  readonly responses: Readonly<Record<number, Answer | string>>;
}

export type Operations = Readonly<Record<string, Operation>>;

/**
 * Operations of the API for games. Each operation must set `access`. Without `access`, it would need the admin token, which
 * games do not have.
 */
export type GameOperations = Readonly<Record<string, Operation & { readonly access: Scope | 'anyone' }>>;

/** The operations of one listener by their `operationId`, and the texts of its OpenAPI document. */
export interface Api {
  readonly title: string;
  readonly description: string;
  /** Description of the bearer token. */
  readonly token: string;
  readonly operations: Operations;
  /** Modules whose exported schemas the OpenAPI document shows, under the names of the exports without the suffix `Output`. */
  readonly schemas: readonly Readonly<Record<string, unknown>>[];
}

export interface Answer<S extends TSchema | undefined = TSchema | undefined> {
  readonly description: string;
  readonly schema: S;
  readonly type: string;
  readonly headers: object;
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: object;
}

export type PathParameter<Route extends string> = Route extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathParameter<Rest>
  : never;

export type BodyOf<O extends Operation> = O['bodyMode'] extends 'unchecked'
  ? unknown
  : O['body'] extends TSchema
    ? Static<O['body']>
    : undefined;

type SuccessOf<O extends Operation> = O['responses'][keyof O['responses'] & (200 | 201 | 202)];

/** Type of the JSON value in a successful response. */
export type OutputOf<O extends Operation> =
  SuccessOf<O> extends Answer<infer S> ? (S extends TSchema ? Static<S> : undefined) : undefined;

export function hasScope(access: Operation['access']): access is Scope {
  return access !== undefined && access !== 'anyone';
}

export function routeOf({ route }: Pick<Operation, 'route'>): {
  readonly method: string;
  readonly path: string;
} {
  const [method = '', path = ''] = route.split(' ');
  return { method, path };
}

export function pathParameters(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}
