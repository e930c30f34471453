/** Defines the routes of uploads. */
import type { IncomingMessage } from 'node:http';
import { finished } from 'node:stream';
import type { RouterContext, RouterInstance } from '@koa/router';
import type { Principal } from '@questlog/runtime/directory/directory';
import { unknownFieldProblems, unknownMembers, unknownOf } from '@questlog/runtime/http/core/unknownFields';
import { Rejected } from '@questlog/runtime/http/rejected';
import { checkedBody, jsonBody } from '@questlog/runtime/http/route';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { attachmentNamed } from '@questlog/runtime/uploads/core/contentDisposition';
import { readUploadPath, UPLOAD_PATH } from '@questlog/runtime/uploads/core/uploadAddress';
import type { UploadTarget } from '@questlog/runtime/uploads/core/uploadKey';
import { answerBytes, findUpload } from '@questlog/runtime/uploads/readUpload';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import type { ErasedData } from '@questlog/schemas/erased';
import { UploadInput } from '@questlog/schemas/http/upload';
import { ConcurrencyLimit, type ProjectIds } from '../limits/concurrencyLimit.ts';
import { FairQueue } from '../limits/fairQueue.ts';
import { receiveUpload, type UploadsInFlight } from '../uploads/receiveUpload.ts';
import { createUpload } from '../uploads/uploads.ts';
import type { Authorize } from './authenticate.ts';
import { isStrict, setHandlingHeaders } from './prefer.ts';

/** Maximum number of concurrent downloads. Each download needs a file or an S3 connection. */
const MAX_CONCURRENT_DOWNLOADS = 64;
const MAX_CONCURRENT_CREATES = 16;

export interface UploadRouteDeps {
  readonly store: UploadStore | undefined;
  readonly inFlight: UploadsInFlight;
  readonly erased: ErasedData;
  /** Returns the project of a signed upload address. Undefined if the address is no longer valid. */
  readonly projectOf: (target: UploadTarget) => ProjectIds | undefined;
  readonly publicUrl: string;
  readonly clock: Clock;
}

const NOT_SET_UP =
  'uploads are not configured: set QUESTLOG_S3_BUCKET to use a bucket, or run all services in one process with QUESTLOG_UPLOADS=folder';

/** Matches a host with an optional port (RFC 9110, section 7.2). */
const HOST = /^(?:\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::\d{1,5})?$/i;

export function uploadRoutes(router: RouterInstance, deps: UploadRouteDeps, authorize: Authorize): void {
  const { store, clock, erased } = deps;
  const uploadBody = checkedBody(UploadInput);
  const createQueue = new FairQueue('requests for uploads', MAX_CONCURRENT_CREATES);
  router.post(
    '/v1/ingest/uploads',
    (ctx, next) => {
      ctx.state['principal'] = authorize(ctx, 'reports:write');
      return next();
    },
    jsonBody(),
    async (ctx) => {
      if (store === undefined) throw new Rejected('uploads_not_set_up', NOT_SET_UP);
      const principal: Principal = ctx.state['principal'];
      const input = uploadBody(ctx.request.body);
      const strict = isStrict(ctx);
      const unknown = unknownOf(unknownMembers(ctx.request.body, UploadInput));
      const errors = strict ? unknownFieldProblems(unknown, UploadInput) : [];
      const [first] = errors;
      if (first !== undefined) throw new Rejected('invalid_request', first.detail, { errors });
      const baseUrl = deps.publicUrl || baseUrlOf(ctx);
      const upload = await createQueue.run(principal.tenant.id, () =>
        createUpload({ store, clock, erased }, principal, input, baseUrl),
      );
      ctx.status = 201;
      setHandlingHeaders(ctx, strict ? 'strict' : undefined, unknown);
      ctx.set('Location', UPLOAD_PATH + upload.uploadId);
      ctx.body = upload;
    },
  );
  router.put('/v1/uploads/:id', async (ctx) => {
    ctx.body = await stored(deps, ctx);
  });
  const downloads = new ConcurrencyLimit(MAX_CONCURRENT_DOWNLOADS);
  router.get('/v1/uploads/:id', async (ctx) => {
    const { tenant, project } = authorize(ctx, 'read');
    const release = downloads.acquire({ tenantId: tenant.id, projectId: project.id });
    if (release === undefined) throw new Unavailable('too many files are being read at once');
    finished(ctx.res, release);
    const upload = await findUpload(
      store,
      { projectId: project.id, days: project.retentionDays?.uploads, nowMs: clock.now() },
      ctx.params['id'] ?? '',
    );
    // These headers prevent a browser from executing an uploaded file as a web page of this origin.
    await answerBytes(ctx, upload, {
      'Content-Type': upload.description.mimeType,
      'Content-Disposition': attachmentNamed(upload.description.fileName),
      'Content-Security-Policy': 'sandbox',
    });
  });
}

/** True if the request uploads a file. An upload can take longer than other requests. */
export function isUpload({ method, url = '' }: IncomingMessage): boolean {
  return method === 'PUT' && url.startsWith(UPLOAD_PATH);
}

async function stored(
  { store, inFlight, projectOf, clock }: UploadRouteDeps,
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

/** Returns the base URL from the `Host` header. Behind a proxy, ingest needs the setting `publicUrl` instead. */
function baseUrlOf(ctx: RouterContext): string {
  const host = ctx.get('Host');
  if (HOST.test(host)) return `http://${host}`;
  const { localAddress = '', localPort } = ctx.req.socket;
  return `http://${localAddress.includes(':') ? `[${localAddress}]` : localAddress}:${localPort}`;
}
