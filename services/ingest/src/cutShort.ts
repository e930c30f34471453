/**
 * A bug report whose record is in the log while some of its events are not, or nobody here has read it back: the answer
 * says how it becomes whole.
 */
import { Unavailable } from '@questlog/runtime/process/errors';

export class CutShort extends Unavailable {
  readonly reportId: string;

  constructor(reportId: string, cause: Unavailable, what = 'not all of its events could be stored') {
    super(`report ${reportId} exists, but ${what}; the same request with "id": "${reportId}" completes it`, {
      cause,
      retryAfterS: cause.retryAfterS,
    });
    this.reportId = reportId;
  }
}
