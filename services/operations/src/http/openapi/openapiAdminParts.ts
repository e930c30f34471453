/** Parts that several OpenAPI operations of the operators' listener use. */
import { problem, ref, tooMany } from '@questlog/runtime/http/openapi/openapiParts';

export const ADMIN_RESPONSES = {
  401: problem('The admin token is missing or wrong.'),
  429: tooMany('the admin token'),
  417: problem('The `Expect` header is not `100-continue`.'),
  503: problem('A dependency does not answer. Retry after the time in `Retry-After`.'),
};

export const NOT_THERE = problem('The id does not exist.');

export function written(operationId: string, summary: string, input: string, responses: object): object {
  return {
    operationId,
    summary,
    requestBody: { required: true, content: { 'application/json': { schema: ref(input) } } },
    responses: {
      400: problem('The body is not valid. The problem lists every invalid or unknown field.'),
      408: problem('The body did not arrive in time.'),
      413: problem('The body is too large.'),
      415: problem('The media type or content coding is not supported.'),
      ...ADMIN_RESPONSES,
      ...responses,
    },
  };
}
