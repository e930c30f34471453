/** The pages, in the order of the navigation. */
import type { VNode } from 'preact';
import { later, type PageProps } from './html.ts';
import { Tail } from './pages/tail.ts';

export interface Page {
  readonly path: string;
  readonly title: string;
  readonly view: (props: PageProps) => VNode;
  /** Path of the parent page. A page with a parent is not in the navigation and has its own `h1`. */
  readonly under?: string;
}

export const PAGES: readonly Page[] = [
  { path: 'tail', title: 'Live tail', view: Tail },
  {
    path: 'rejects',
    title: 'Rejects',
    view: later(async () => (await import('./pages/rejects.ts')).Rejects),
  },
  {
    path: 'letters',
    title: 'Dead letters',
    view: later(async () => (await import('./pages/letters.ts')).Letters),
  },
  { path: 'follow', title: 'Follow', view: later(async () => (await import('./pages/follow.ts')).Follow) },
  {
    path: 'reports',
    title: 'Reports',
    view: later(async () => (await import('./pages/reports.ts')).Reports),
  },
  {
    ...{ path: 'report', title: 'Report', under: 'reports' },
    view: later(async () => (await import('./pages/report.ts')).Report),
  },
  { path: 'health', title: 'Health', view: later(async () => (await import('./pages/health.ts')).Health) },
  { path: 'quota', title: 'Quota', view: later(async () => (await import('./pages/quota.ts')).Quota) },
  { path: 'manage', title: 'Manage', view: later(async () => (await import('./pages/manage.ts')).Manage) },
  { path: 'audit', title: 'Audit', view: later(async () => (await import('./pages/audit.ts')).Audit) },
  { path: 'ask', title: 'Ask', view: later(async () => (await import('./pages/ask.ts')).Ask) },
];
