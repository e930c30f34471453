/** The parts of a browser's page that the client uses. They are undefined in Node. */
export const PAGE: {
  readonly addEventListener?: (event: string, listener: () => void, options: { signal: AbortSignal }) => void;
  readonly document?: { readonly visibilityState: string };
  readonly location?: { readonly href: string };
  readonly navigator?: Partial<Navigator> & { readonly onLine?: boolean };
} = globalThis;
