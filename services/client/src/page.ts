/** The parts of a browser page that the client uses. Outside of a browser, each part may be undefined. */
export const PAGE: {
  readonly addEventListener?: (event: string, listener: () => void, options: { signal: AbortSignal }) => void;
  readonly document?: { readonly visibilityState: string };
  readonly location?: { readonly href: string };
  readonly navigator?: Partial<Navigator> & { readonly onLine?: boolean };
} = globalThis;
