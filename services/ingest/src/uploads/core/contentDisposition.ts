/** Formats the `Content-Disposition` header of a download (RFC 6266). Pure. */

/** Characters that `encodeURIComponent` leaves unencoded. RFC 8187 (`attr-char`) requires that they are encoded. */
const NOT_ATTR_CHAR = /['()*]/g;
/** Characters that clients interpret differently in quoted strings. */
const NOT_PLAIN = /[^\x20-\x7e]|["\\%]/g;

/** Returns a header that makes browsers save the file. The header also contains an ASCII name for old clients. */
export function attachmentNamed(fileName: string): string {
  const encoded = encodeURIComponent(fileName.toWellFormed()).replace(
    NOT_ATTR_CHAR,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${fileName.replace(NOT_PLAIN, '_')}"; filename*=UTF-8''${encoded}`;
}
