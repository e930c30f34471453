/** What an erasure of a player cannot find: a receipt of nothing must not read as if nothing were there. Pure. */
import type { Erasure, Project } from '@questlog/schemas/topics/directoryEntry';
import { outlivesSessions } from '../../core/sessionDays.ts';

/** Says, as sentences, in which projects the player's sessions go before what they tell of; null: in none. */
export function unfoundOf(
  { tenantId, projectId, player }: Pick<Erasure, 'tenantId' | 'projectId' | 'player'>,
  projects: ReadonlyMap<string, Pick<Project, 'id' | 'tenantId' | 'retentionDays'>>,
): string | null {
  if (player === null) return null;
  const said = [...projects.values()].flatMap((project) => {
    const isOfIt = project.tenantId === tenantId && (projectId === null || project.id === projectId);
    const outlived = isOfIt ? outlivesSessions(project.retentionDays) : undefined;
    return outlived === undefined ? [] : [`project ${project.id} may have more of the player: ${outlived}`];
  });
  return said.length === 0 ? null : said.join('; ').slice(0, MAX_CHARACTERS);
}

/** A tenant may have many such projects. */
const MAX_CHARACTERS = 2_000;
