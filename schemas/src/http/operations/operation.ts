/**
 * The declaration of an HTTP operation. The routes of both listeners, the OpenAPI documents, the reference page, and the requests
 * of the command line derive from the declarations.
 */
import type { Static, TSchema } from 'typebox';
import type { Scope } from '../../topics/directoryEntry.ts';

export interface Operation {
  readonly route: `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /${string}`;
  /** Scope of a project's token, or `anyone` if the operation needs no token. Undefined: the operation needs the admin token. */
  readonly access?: Scope | 'anyone';
  readonly summary: string;
  readonly description?: string;
  /** Parameters in the query and in headers. A parameter of the path is listed only if it is not a UUID. */
  readonly parameters?: readonly Parameter[];
  readonly body?: TSchema;
  /**
   * `exact`: a null field is not an omitted field. `unchecked`: the handler checks the parsed body. `unread`: the handler reads
   * and checks the body. Undefined: the body is checked before the handler runs.
   */
  readonly bodyMode?: 'exact' | 'unchecked' | 'unread';
  /** Schema that the document shows for the body. Undefined if the schema of `body` is shown. */
  readonly shownBody?: object;
  readonly bodyType?: string;
  /** Answers by status. A text describes a problem document. The statuses that all operations have are omitted. */
  readonly responses: Readonly<Record<number, Answer | string>>;
}

export type Operations = Readonly<Record<string, Operation>>;

/** The admin token is not valid for games, so each of their operations has a scope or is for anyone. */
export type GameOperations = Readonly<Record<string, Operation & { readonly access: Scope | 'anyone' }>>;

/** The operations of one listener by their `operationId`, and the texts of its OpenAPI document. */
export interface Api {
  readonly title: string;
  readonly description: string;
  /** Description of the bearer token. */
  readonly token: string;
  readonly operations: Operations;
  /** Modules whose schemas the document shows under the names of their exports, without the suffix `Output`. */
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

/** Names of the parameters in the path of a route. */
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

/** Returns the names of the parameters in a path, in the order of the path. */
export function pathParameters(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
}
