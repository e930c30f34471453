/** The `Content-Disposition` header of a download (RFC 6266). Pure. */

/**
 * Characters that are not encoded in the extended form (RFC 8187, `attr-char`). Other characters are percent-encoded
 * UTF-8.
 */
const NOT_ATTR_CHAR = /['()*]/g;
/** Characters that are replaced in the quoted form, because clients read escapes and `%` differently. */
const NOT_PLAIN = /[^\x20-\x7e]|["\\%]/g;

/**
 * Returns a header that makes browsers save the file instead of showing it. The header has an ASCII name for old
 * clients and the exact name for others.
 */
export function attachmentNamed(fileName: string): string {
  const encoded = encodeURIComponent(fileName.toWellFormed()).replace(
    NOT_ATTR_CHAR,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${fileName.replace(NOT_PLAIN, '_')}"; filename*=UTF-8''${encoded}`;
}
