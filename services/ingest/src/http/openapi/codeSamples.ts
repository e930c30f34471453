/** Adds tags, examples, and code samples (`x-codeSamples`) to an OpenAPI document. */

import type { OpenApiDocument, OpenApiOperation } from '@questlog/runtime/http/openapi/openApiDocument';

export interface Document extends OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

interface Operation extends OpenApiOperation {
  tags?: string[];
  'x-codeSamples'?: CodeSample[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Body>> };
}

interface CodeSample {
  readonly lang: string;
  readonly label: string;
  readonly source: string;
}

interface Body {
  readonly schema: Reference;
  example?: unknown;
}

interface Reference {
  readonly $ref?: string;
  readonly anyOf?: readonly Reference[];
}

interface Request {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
}

const JSON_TYPE = 'application/json';

/** @param document OpenAPI document in which each schema of a request or response body has examples */
export function withExamples(document: OpenApiDocument): Document {
  const copy: Document = JSON.parse(JSON.stringify(document));
  for (const [path, operations] of Object.entries(copy.paths)) {
    const tag = /^\/(?:v1\/(?:ingest\/)?|admin\/)([\w-]+)/.exec(path)?.[1];
    for (const [method, operation] of Object.entries(operations)) {
      if (tag !== undefined) operation.tags = [tag];
      const body = operation.requestBody?.content[JSON_TYPE];
      if (body !== undefined) body.example = exampleOf(body.schema, copy);
      const isAnsweredInJson = Object.entries(operation.responses).some(
        ([status, { content = {} }]) => status === '204' || (status < '300' && JSON_TYPE in content),
      );
      if (!isAnsweredInJson || operation.security !== undefined) continue;
      operation['x-codeSamples'] = samplesOf({ method: method.toUpperCase(), path, body: body?.example });
    }
  }
  return copy;
}

function exampleOf({ $ref = '', anyOf }: Reference, document: Document): unknown {
  if (anyOf?.[0] !== undefined) return exampleOf(anyOf[0], document);
  return document.components.schemas[$ref.split('/').at(-1) ?? '']?.examples?.[0];
}

function samplesOf(operation: Request): CodeSample[] {
  const { method, body } = operation;
  const path = operation.path.replaceAll(/\{(\w+)\}/g, '<$1>');
  const request = { method, path, body };
  return [
    { lang: 'Shell', label: 'curl', source: curl(request) },
    { lang: 'TypeScript', label: 'TypeScript', source: typeScript(request) },
    { lang: 'C#', label: 'C# (Unity)', source: cSharp(request) },
    { lang: 'C++', label: 'C++ (Unreal)', source: cPlusPlus(request) },
    { lang: 'GDScript', label: 'GDScript (Godot)', source: gdScript(request) },
  ];
}

/** Returns a string literal that is valid in JavaScript, C#, C++, and GDScript. */
const quoted = (body: unknown): string => JSON.stringify(JSON.stringify(body));

function curl({ method, path, body }: Request): string {
  const isUsual = method === (body === undefined ? 'GET' : 'POST');
  const json = JSON.stringify(body)?.replaceAll("'", "'\\''");
  const sent = json === undefined ? '' : ` \\\n  -H 'Content-Type: ${JSON_TYPE}' \\\n  -d '${json}'`;
  return `curl -s${isUsual ? '' : ` -X ${method}`} "$QUESTLOG_URL${path}" -H "Authorization: Bearer $QUESTLOG_TOKEN"${sent}`;
}

function typeScript({ method, path, body }: Request): string {
  const type = body === undefined ? '' : `, 'Content-Type': '${JSON_TYPE}'`;
  const sent =
    body === undefined
      ? ''
      : `  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll('\n', '\n  ')}),\n`;
  return `const answer = await fetch(\`\${url}${path}\`, {
  method: '${method}',
  headers: { Authorization: \`Bearer \${token}\`${type} },
${sent}});
console.log(answer.status, await answer.text());`;
}

function cSharp({ method, path, body }: Request): string {
  const sent = `request.Content = new StringContent(${quoted(body)}, Encoding.UTF8, "${JSON_TYPE}");\n`;
  return `var request = new HttpRequestMessage(new HttpMethod("${method}"), url + "${path}");
request.Headers.Add("Authorization", "Bearer " + token);
${body === undefined ? '' : sent}var answer = await new HttpClient().SendAsync(request);
Debug.Log((int)answer.StatusCode + " " + await answer.Content.ReadAsStringAsync());`;
}

function cPlusPlus({ method, path, body }: Request): string {
  const sent = `Request->SetHeader(TEXT("Content-Type"), TEXT("${JSON_TYPE}"));
Request->SetContentAsString(TEXT(${quoted(body)}));\n`;
  return `const FHttpRequestRef Request = FHttpModule::Get().CreateRequest();
Request->SetVerb(TEXT("${method}"));
Request->SetURL(Url + TEXT("${path}"));
Request->SetHeader(TEXT("Authorization"), TEXT("Bearer ") + Token);
${body === undefined ? '' : sent}Request->OnProcessRequestComplete().BindLambda([](FHttpRequestPtr, FHttpResponsePtr Answer, bool bAnswered)
{
	if (bAnswered) UE_LOG(LogTemp, Log, TEXT("%d %s"), Answer->GetResponseCode(), *Answer->GetContentAsString());
});
Request->ProcessRequest();`;
}

function gdScript({ method, path, body }: Request): string {
  const type = body === undefined ? '' : `, "Content-Type: ${JSON_TYPE}"`;
  const sent = body === undefined ? '' : `, ${quoted(body)}`;
  return `var request := HTTPRequest.new()
add_child(request)
request.request_completed.connect(func(_result, status, _headers, body):
	print(status, " ", body.get_string_from_utf8()))
request.request(url + "${path}", ["Authorization: Bearer " + token${type}], HTTPClient.METHOD_${method}${sent})`;
}
