/** Consumer group and table of each projected topic. Every commit of the group contains the UUID of the table. */
import { GROUPS, TOPICS } from '../topics/topics.ts';

export const PROJECTED = {
  events: { group: GROUPS.projectEvents, topic: TOPICS.events, table: 'events' },
  links: { group: GROUPS.projectLinks, topic: TOPICS.linkedEvents, table: 'report_link_versions' },
  reports: { group: GROUPS.projectReports, topic: TOPICS.reportLinks, table: 'report_versions' },
  sessions: { group: GROUPS.projectSessions, topic: TOPICS.sessions, table: 'sessions' },
} as const;

export type Projected = keyof typeof PROJECTED;
