/** The pages of the console, in the order of the navigation. */
import type { VNode } from 'preact';
import { html, type PageProps } from './html.ts';
import { Overview } from './pages/overview.ts';
import { show, useResource } from './resource.ts';

type View = (props: PageProps) => VNode;

export interface Page {
  readonly path: string;
  readonly title: string;
  readonly view: View;
  /** Page of the documentation about this page, with an optional anchor. Undefined if the sections have links of their own. */
  readonly docs?: string;
  /** Path of the parent page. A page with a parent page is not in the navigation, and has its own `h1`. */
  readonly under?: string;
}

/** Returns a page whose module is loaded only when the operator opens the page. */
function lazy<Name extends string>(name: Name, load: () => Promise<Readonly<Record<Name, View>>>): View {
  let view: View | undefined;
  return (props) => {
    const loaded = useResource('', async () => {
      view ??= (await load())[name];
      return view;
    });
    return show({ ...loaded, value: view }, (known) => html`<${known} ...${props} />`);
  };
}

export const PAGES: readonly Page[] = [
  { path: 'overview', title: 'Overview', view: Overview, docs: 'docs/operating/alerts.md#rules' },
  {
    path: 'tail',
    title: 'Live tail',
    view: lazy('Tail', () => import('./pages/tail.ts')),
    docs: 'docs/operating/console.md',
  },
  {
    path: 'rejects',
    title: 'Rejects',
    view: lazy('Rejects', () => import('./pages/rejects.ts')),
    docs: 'docs/reference/problems.md',
  },
  {
    path: 'letters',
    title: 'Dead letters',
    view: lazy('DeadLetters', () => import('./pages/deadLetters.ts')),
    docs: 'docs/operating/runbooks/dead-letters.md',
  },
  {
    path: 'follow',
    title: 'Follow',
    view: lazy('Follow', () => import('./pages/follow.ts')),
    docs: 'docs/operating/verify.md',
  },
  {
    path: 'reports',
    title: 'Reports',
    view: lazy('Reports', () => import('./pages/reports.ts')),
    docs: 'docs/operating/linker.md',
  },
  {
    path: 'report',
    title: 'Report',
    under: 'reports',
    view: lazy('Report', () => import('./pages/report.ts')),
  },
  {
    path: 'health',
    title: 'Health',
    view: lazy('Health', () => import('./pages/health.ts')),
    docs: 'docs/operating/alerts.md#warnings',
  },
  {
    path: 'quota',
    title: 'Quota',
    view: lazy('Quota', () => import('./pages/quota.ts')),
    docs: 'docs/operating/quotas.md',
  },
  { path: 'manage', title: 'Manage', view: lazy('Manage', () => import('./pages/manage.ts')) },
  {
    path: 'audit',
    title: 'Audit',
    view: lazy('Audit', () => import('./pages/audit.ts')),
    docs: 'docs/operating/audit.md',
  },
  {
    path: 'ask',
    title: 'SQL',
    view: lazy('SqlPage', () => import('./pages/sql.ts')),
    docs: 'docs/querying.md',
  },
];
