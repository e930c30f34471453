/** Serves uploaded files to operators. */
import type { Directory } from '@questlog/runtime/directory/directory';
import { pathUuid } from '@questlog/runtime/http/rejected';
import type { Handlers } from '@questlog/runtime/http/routes';
import type { Clock } from '@questlog/runtime/process/clock';
import { attachmentNamed } from '@questlog/runtime/uploads/core/contentDisposition';
import { essenceOf } from '@questlog/runtime/uploads/core/uploadKey';
import { answerBytes, findUpload } from '@questlog/runtime/uploads/readUpload';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import type { OPERATORS } from '@questlog/schemas/http/operations/operators';

/** Media types of files that the web console shows as images. Files of these types cannot contain a script. */
const PICTURES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
const MAX_SHOWN_BYTES = 16 * 1024 * 1024;

interface OperatorsUploads {
  readonly uploads: UploadStore | undefined;
  readonly directory: { readonly current: Pick<Directory, 'projects'> };
  readonly clock: Clock;
}

export function uploadHandler({
  uploads: store,
  directory,
  clock,
}: OperatorsUploads): Handlers<typeof OPERATORS>['getUpload'] {
  return async (ctx, { params: { projectId, uploadId } }) => {
    const id = pathUuid(projectId);
    const days = directory.current.projects.get(id)?.retentionDays?.uploads;
    const upload = await findUpload(store, { projectId: id, days, nowMs: clock.now() }, uploadId);
    const { fileName, mimeType } = upload.description;
    const type = essenceOf(mimeType);
    const isPicture = PICTURES.includes(type) && upload.sizeBytes <= MAX_SHOWN_BYTES;
    const isText = type.startsWith('text/') || type === 'application/json';
    await answerBytes(ctx, upload, {
      'Content-Type': isPicture ? type : isText ? 'text/plain; charset=utf-8' : 'application/octet-stream',
      'Content-Disposition': isPicture ? 'inline' : attachmentNamed(fileName),
      'Content-Security-Policy': "sandbox; default-src 'none'",
      'Cross-Origin-Resource-Policy': 'same-origin',
      'Cache-Control': 'private, no-store',
    });
  };
}
