/** Formats the `Content-Disposition` header (RFC 6266) of a file download. */

/** Characters that RFC 8187 (`attr-char`) requires to be encoded, but that `encodeURIComponent` does not encode. */
const NOT_ATTR_CHAR = /['()*]/g;
/** Characters in a quoted file name that clients interpret in different ways. */
const NOT_PLAIN = /[^\x20-\x7e]|["\\%]/g;

/** Returns a header that makes browsers save the file. The header contains an ASCII file name for old clients. */
export function attachmentNamed(fileName: string): string {
  const encoded = encodeURIComponent(fileName.toWellFormed()).replace(
    NOT_ATTR_CHAR,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${fileName.replace(NOT_PLAIN, '_')}"; filename*=UTF-8''${encoded}`;
}
