/** The parts of a browser's page that are used. Node has none of them. */
export const PAGE: {
  readonly addEventListener?: (event: string, listener: () => void, options: { signal: AbortSignal }) => void;
  readonly document?: { readonly visibilityState: string };
  readonly location?: { readonly href: string };
  readonly navigator?: Partial<Navigator> & { readonly onLine?: boolean };
} = globalThis;
