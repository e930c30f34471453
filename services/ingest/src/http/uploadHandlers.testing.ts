/** Test support: a listener with only the upload endpoints. */
import { Router } from '@koa/router';
import type { Principal } from '@questlog/runtime/directory/directory';
import { problems } from '@questlog/runtime/http/problems';
import { addRoutes } from '@questlog/runtime/http/routes';
import type { Clock } from '@questlog/runtime/process/clock';
import { type Listener, listen } from '@questlog/runtime/process/listener/listen';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { UPLOADS } from '@questlog/schemas/http/operations/uploads';
import Koa from 'koa';
import { ingestMetrics } from '../metrics.ts';
import { UploadsInFlight } from '../uploads/receiveUpload.ts';
import { type UploadHandlerDeps, uploadHandlers } from './uploadHandlers.ts';

export interface UploadListenerOptions {
  readonly store: UploadStore | undefined;
  readonly publicUrl?: string;
  readonly clock?: Clock;
  /** Principal of every request, for any token. */
  readonly principal?: Principal;
  /** Returns true if the caller's token is valid. */
  readonly isValid?: () => boolean;
}

export async function listenForUploads(options: UploadListenerOptions): Promise<Listener> {
  const { store, publicUrl = '', clock = { now: Date.now }, principal, isValid = () => true } = options;
  const metrics = ingestMetrics(createMetricsRegistry());
  const router = new Router();
  const inFlight = new UploadsInFlight(metrics.uploadsInFlight);
  const projectOf: UploadHandlerDeps['projectOf'] = ({ key: { projectId } }) =>
    isValid() ? { projectId, tenantId: 'its tenant' } : undefined;
  const sessions = { canExist: () => true };
  const handlers = uploadHandlers({ store, publicUrl, clock, inFlight, projectOf, sessions });
  addRoutes(router, UPLOADS, handlers, () => {
    if (principal === undefined) throw new Error('no request may have a token');
    return { principal, reauthenticate: () => principal };
  });
  const app = new Koa().use(problems(silentLogger, metrics)).use(router.routes());
  // Ignores errors of clients that disconnect during a file.
  app.silent = true;
  const at = { host: '127.0.0.1', port: 0, settings: { host: 'HOST', port: 'PORT' } };
  return await listen(app.callback(), at);
}
