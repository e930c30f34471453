/** The `Content-Disposition` header of a download (RFC 6266). Pure. */

/** Characters that are also percent-encoded (RFC 8187, `attr-char`). */
const NOT_ATTR_CHAR = /['()*]/g;
/** Characters that clients read differently in quoted strings. */
const NOT_PLAIN = /[^\x20-\x7e]|["\\%]/g;

/** Returns a header that makes browsers save the file. Old clients get an ASCII name. */
export function attachmentNamed(fileName: string): string {
  const encoded = encodeURIComponent(fileName.toWellFormed()).replace(
    NOT_ATTR_CHAR,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${fileName.replace(NOT_PLAIN, '_')}"; filename*=UTF-8''${encoded}`;
}
