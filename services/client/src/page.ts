/** Declares the browser objects that the client uses. Outside of a browser, each object can be undefined. */
export const PAGE: {
  readonly addEventListener?: (event: string, listener: () => void, options: { signal: AbortSignal }) => void;
  readonly document?: { readonly visibilityState: string };
  readonly location?: { readonly href: string };
  readonly navigator?: Partial<Navigator> & { readonly onLine?: boolean };
} = globalThis;
