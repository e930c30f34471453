/** Handles the operations on uploads. */
import type { IncomingMessage } from 'node:http';
import { finished } from 'node:stream';
import type { RouterContext } from '@koa/router';
import { unknownFieldProblems, unknownMembers, unknownOf } from '@questlog/runtime/http/core/unknownFields';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Handlers } from '@questlog/runtime/http/routes';
import type { Clock } from '@questlog/runtime/process/clock';
import { attachmentNamed } from '@questlog/runtime/uploads/core/contentDisposition';
import { readUploadPath, UPLOAD_PATH } from '@questlog/runtime/uploads/core/uploadAddress';
import type { UploadTarget } from '@questlog/runtime/uploads/core/uploadKey';
import { answerBytes, findUpload } from '@questlog/runtime/uploads/readUpload';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import type { UPLOADS } from '@questlog/schemas/http/operations/uploads';
import { UploadInput } from '@questlog/schemas/http/upload';
import type { SessionCache } from '../entityCache/sessionCache.ts';
import { FairQueue, limitConcurrency, type ProjectIds } from '../limits/fairSharing.ts';
import { receiveUpload, type UploadsInFlight } from '../uploads/receiveUpload.ts';
import { createUpload } from '../uploads/uploads.ts';
import type { Caller } from './authenticate.ts';
import { isStrict, setHandlingHeaders } from './prefer.ts';

/** Maximum number of concurrent downloads, because each download needs an open file or an S3 connection. */
const MAX_CONCURRENT_DOWNLOADS = 64;
const MAX_CONCURRENT_CREATES = 16;

export interface UploadHandlerDeps {
  readonly store: UploadStore | undefined;
  readonly inFlight: UploadsInFlight;
  readonly sessions: Pick<SessionCache, 'canExist'>;
  /** Returns the project of a signed upload address. Undefined if the address is not valid any more. */
  readonly projectOf: (target: UploadTarget) => ProjectIds | undefined;
  readonly publicUrl: string;
  readonly clock: Clock;
}

const NOT_SET_UP =
  'uploads are not configured: set QUESTLOG_S3_BUCKET to use a bucket, or run all services in one process with QUESTLOG_UPLOADS=folder';

/** Matches a host name or IP address with an optional port (RFC 9110, section 7.2). */
const HOST = /^(?:\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::\d{1,5})?$/i;

export function uploadHandlers(deps: UploadHandlerDeps): Handlers<typeof UPLOADS, Caller> {
  const { store, clock, sessions } = deps;
  const createQueue = new FairQueue('requests for uploads', MAX_CONCURRENT_CREATES);
  const acquireDownload = limitConcurrency('file downloads', MAX_CONCURRENT_DOWNLOADS);
  return {
    createUpload: async (ctx, { caller: { principal }, body: input }) => {
      if (store === undefined) throw new Rejected('uploads_not_set_up', NOT_SET_UP);
      const strict = isStrict(ctx);
      const unknown = unknownOf(unknownMembers(ctx.request.body, UploadInput));
      const errors = strict ? unknownFieldProblems(unknown, UploadInput) : [];
      const [first] = errors;
      if (first !== undefined) throw new Rejected('invalid_request', first.detail, { errors });
      const baseUrl = deps.publicUrl || baseUrlOf(ctx);
      const upload = await createQueue.run(principal.tenant.id, () =>
        createUpload({ store, clock, sessions }, principal, input, baseUrl),
      );
      setHandlingHeaders(ctx, strict ? 'strict' : undefined, unknown);
      ctx.set('Location', UPLOAD_PATH + upload.uploadId);
      return upload;
    },
    putUpload: (ctx) => stored(deps, ctx),
    getUpload: async (ctx, { caller, params }) => {
      const { tenant, project } = caller.principal;
      const release = acquireDownload({ tenantId: tenant.id, projectId: project.id });
      finished(ctx.res, release);
      const upload = await findUpload(
        store,
        { projectId: project.id, days: project.retentionDays?.uploads, nowMs: clock.now() },
        params.id,
      );
      // Response headers that prevent a browser from executing an uploaded file as a web page of this origin.
      await answerBytes(ctx, upload, {
        'Content-Type': upload.description.mimeType,
        'Content-Disposition': attachmentNamed(upload.description.fileName),
        'Content-Security-Policy': 'sandbox',
      });
    },
  };
}

/** True if the request uploads a file. Uploads have a longer time limit than other requests. */
export function isUpload({ method, url = '' }: IncomingMessage): boolean {
  return method === 'PUT' && url.startsWith(UPLOAD_PATH);
}

async function stored(
  { store, inFlight, projectOf, clock }: UploadHandlerDeps,
  ctx: RouterContext,
): Promise<{ uploadId: string; sizeBytes: number }> {
  const receiver = store?.receiver;
  if (receiver === undefined) {
    throw new Rejected(
      'invalid_upload_address',
      'this server does not receive files; send them to the uploadUrl',
    );
  }
  const options = { signingKey: receiver.signingKey, nowMs: clock.now() };
  const target = readUploadPath(ctx.params['id'] ?? '', ctx.query, options);
  const sizeBytes = await receiveUpload(receiver, inFlight, target, ctx.req, () => projectOf(target));
  return { uploadId: target.key.uploadId, sizeBytes };
}

/** Returns the base URL from the `Host` header. If ingest runs behind a proxy, the operator sets `publicUrl` instead. */
function baseUrlOf(ctx: RouterContext): string {
  const host = ctx.get('Host');
  if (HOST.test(host)) return `http://${host}`;
  const { localAddress = '', localPort } = ctx.req.socket;
  return `http://${localAddress.includes(':') ? `[${localAddress}]` : localAddress}:${localPort}`;
}
