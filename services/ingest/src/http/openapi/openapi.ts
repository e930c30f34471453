/** Returns the OpenAPI 3.1 document of the API for games. */
import { openApiDocument } from '@questlog/runtime/http/openapi/openApiDocument';
import { gamesApi } from '@questlog/schemas/http/operations/games';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { type Document, withExamples } from './codeSamples.ts';

export function openApi(revision: Revision): Document {
  return withExamples(openApiDocument(gamesApi(revision)));
}
