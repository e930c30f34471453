/** DELETE /v1/reports/{id}: takes a report back; once. */
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { reportTimeOf } from '@questlog/schemas/reportWindow';
import type { OneAtATime } from './known/oneAtATime.ts';
import type { Reports } from './known/reports.ts';
import { pathUuid } from './pathUuid.ts';
import { knownReport } from './reports/readReports.ts';

/** @throws Rejected `not_found` also for a report of another project. */
export async function retractReport(
  deps: { reports: Reports; clock: Clock; perReport: OneAtATime },
  principal: Principal,
  idText: string,
): Promise<void> {
  const id = pathUuid(idText);
  await deps.perReport.run(`${principal.project.id}/${id}`, async () => {
    const { filed, retractedAt } = await knownReport(deps, principal, id);
    if (retractedAt !== null) return;
    await deps.reports.append({
      ...filed,
      kind: 'retracted',
      receivedAt: deps.clock.now(),
      // Where it was not given it was the time of receipt, which is another one in this record.
      occurredAt: reportTimeOf(filed),
    });
  });
}
