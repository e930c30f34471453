/** The `Content-Disposition` header of a download (RFC 6266). Pure. */

/** RFC 8187, `attr-char`: other characters are percent-encoded. */
const NOT_ATTR_CHAR = /['()*]/g;
/** Clients read escapes and `%` in quoted strings differently. */
const NOT_PLAIN = /[^\x20-\x7e]|["\\%]/g;

/** Browsers save the file instead of showing it. Old clients get an ASCII name. */
export function attachmentNamed(fileName: string): string {
  const encoded = encodeURIComponent(fileName.toWellFormed()).replace(
    NOT_ATTR_CHAR,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${fileName.replace(NOT_PLAIN, '_')}"; filename*=UTF-8''${encoded}`;
}
