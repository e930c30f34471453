/** The pages, in the order of the navigation. */
import type { VNode } from 'preact';
import { later, type PageProps } from './html.ts';
import { Tail } from './pages/tail.ts';

export interface Page {
  readonly path: string;
  readonly title: string;
  readonly view: (props: PageProps) => VNode;
  /** False: others lead to it. */
  readonly isListed?: boolean;
}

export const PAGES: readonly Page[] = [
  { path: 'tail', title: 'Live tail', view: Tail },
  {
    path: 'rejects',
    title: 'Rejects',
    view: later(async () => (await import('./pages/rejects.ts')).Rejects),
  },
  { path: 'ask', title: 'Ask', view: later(async () => (await import('./pages/ask.ts')).Ask) },
];
