/** Whether what a process has in memory was erased since it was read. Pure. */
import type { Directory } from '@questlog/runtime/directory/directory';
import type { Erasable } from '@questlog/schemas/erased';

/** A session as registered, a report as filed. */
export type IsErased = (of: Omit<Erasable, 'tenantId'> & { readonly reportId?: string }) => boolean;

export const NOTHING_ERASED: IsErased = () => false;

export function isErasedIn({ projects, erased }: Pick<Directory, 'projects' | 'erased'>): IsErased {
  return (of) => {
    if (erased.isEmpty) return false;
    const { projectId, reportId } = of;
    const tenantId = projects.get(projectId)?.tenantId;
    if (tenantId === undefined) return false;
    if (reportId !== undefined && erased.hasReport(tenantId, projectId, reportId)) return true;
    return erased.by({ ...of, tenantId }) !== undefined;
  };
}
