/** The pages of the console, in the order of the navigation. */
import type { VNode } from 'preact';
import { lazyPage, type PageProps } from './html.ts';
import { Tail } from './pages/tail.ts';

export interface Page {
  readonly path: string;
  readonly title: string;
  readonly view: (props: PageProps) => VNode;
  /** Path of the parent page. A page with a parent page is not in the navigation, and has its own `h1`. */
  readonly under?: string;
}

export const PAGES: readonly Page[] = [
  { path: 'tail', title: 'Live tail', view: Tail },
  {
    path: 'rejects',
    title: 'Rejects',
    view: lazyPage(async () => (await import('./pages/rejects.ts')).Rejects),
  },
  {
    path: 'letters',
    title: 'Dead letters',
    view: lazyPage(async () => (await import('./pages/deadLetters.ts')).DeadLetters),
  },
  { path: 'follow', title: 'Follow', view: lazyPage(async () => (await import('./pages/follow.ts')).Follow) },
  {
    path: 'reports',
    title: 'Reports',
    view: lazyPage(async () => (await import('./pages/reports.ts')).Reports),
  },
  {
    ...{ path: 'report', title: 'Report', under: 'reports' },
    view: lazyPage(async () => (await import('./pages/report.ts')).Report),
  },
  { path: 'health', title: 'Health', view: lazyPage(async () => (await import('./pages/health.ts')).Health) },
  { path: 'quota', title: 'Quota', view: lazyPage(async () => (await import('./pages/quota.ts')).Quota) },
  { path: 'manage', title: 'Manage', view: lazyPage(async () => (await import('./pages/manage.ts')).Manage) },
  { path: 'audit', title: 'Audit', view: lazyPage(async () => (await import('./pages/audit.ts')).Audit) },
  { path: 'ask', title: 'SQL', view: lazyPage(async () => (await import('./pages/sql.ts')).SqlPage) },
];
