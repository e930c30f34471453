/** The files of a report, with previews of images and texts. HTML files are never rendered. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { bytes } from '../format.ts';
import { html } from '../html.ts';
import { request } from '../request.ts';
import { show, useResource } from '../resource.ts';

export interface ReportFile {
  readonly upload_id: string;
  readonly type: string;
  readonly file_name: string;
  readonly mime_type: string;
  readonly size_bytes: string | null;
  readonly state: 'stored' | 'missing' | 'expired';
}

/** Matches image types that cannot contain scripts. */
const PICTURE = /^image\/(png|jpeg|webp|gif)\b/i;
const TEXT = /^(text\/|application\/(json|xml))/i;
const TEXT_NAME = /\.(log|txt|json|ndjson|csv|xml|ini|cfg|yaml|yml)$/i;
const PREVIEW_BYTES = 64 * 1024;

export function Attachments(props: { projectId: string; files: readonly ReportFile[] }): VNode | null {
  const { projectId, files } = props;
  if (files.length === 0) return null;
  return html`<section aria-labelledby="files">
    <h2 id="files">Files</h2>
    ${files.map((file) => html`<${File} key=${file.upload_id} path=${`/admin/uploads/${projectId}/${file.upload_id}`} file=${file} />`)}
  </section>`;
}

function File({ path, file }: { path: string; file: ReportFile }): VNode {
  const { file_name: name, mime_type: type, size_bytes: size, state } = file;
  const head = html`<figcaption>
    ${state === 'stored' ? html`<a href=${path} download>${name}</a>` : name}
    <small> ${[file.type, type, size === null ? '' : bytes(Number(size))].filter(Boolean).join(' · ')}</small>
    ${state !== 'stored' && html` <span class="tag warn">${state}</span>`}
  </figcaption>`;
  if (state === 'expired')
    return html`<figure class="card">${head}<p class="status">This file has expired, because the project keeps files for a limited number of days.</p></figure>`;
  if (state === 'missing')
    return html`<figure class="card">${head}<p class="status">When the report was filed, this file was not uploaded yet, or it belonged to another project.</p></figure>`;
  const isText = TEXT.test(type) || TEXT_NAME.test(name);
  return html`<figure class="card">
    ${head}
    ${PICTURE.test(type) ? html`<${Picture} path=${path} name=${name} />` : isText && html`<${Text} path=${path} name=${name} />`}
  </figure>`;
}

function Picture({ path, name }: { path: string; name: string }): VNode {
  const [isBroken, setBroken] = useState(false);
  return isBroken
    ? html`<p class="status">The file cannot be shown: it has expired, was erased, or is not a picture.</p>`
    : html`<img class="shot" src=${path} alt=${name} loading="lazy" onError=${() => setBroken(true)} />`;
}

function Text({ path, name }: { path: string; name: string }): VNode {
  const beginning = useResource(path, (signal) => beginningOf(path, signal));
  return show(beginning, ({ text, isWhole }) =>
    text.includes('\0')
      ? html`<p class="status">This file is not a text.</p>`
      : html`<pre class="log" tabindex="0" aria-label=${`The text of ${name}`}>${text}</pre>
          ${!isWhole && html`<p class="status">Showing the first ${bytes(PREVIEW_BYTES)}. Select the file name to download the whole file.</p>`}`,
  );
}

async function beginningOf(path: string, signal: AbortSignal): Promise<{ text: string; isWhole: boolean }> {
  const { body } = await request('GET', path, undefined, signal);
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (let taken = 0; reader !== undefined; ) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value.subarray(0, PREVIEW_BYTES - taken), { stream: true });
    taken += value.length;
    if (taken <= PREVIEW_BYTES) continue;
    await reader.cancel();
    return { text, isWhole: false };
  }
  return { text: text + decoder.decode(), isWhole: true };
}
