/** `Content-Disposition` of a download (RFC 6266). Pure. */

/** Characters that stand for themselves in the extended form (RFC 8187, `attr-char`); the rest is percent-encoded UTF-8. */
const NOT_ATTR_CHAR = /['()*]/g;
/** A quoted string in which nothing needs an escape; clients differ in how they read escapes and `%`. */
const NOT_PLAIN = /[^\x20-\x7e]|["\\%]/g;

/** Always a download, never shown in the page: with the name for old clients in ASCII, for others as it is. */
export function attachmentNamed(fileName: string): string {
  const encoded = encodeURIComponent(fileName.toWellFormed()).replace(
    NOT_ATTR_CHAR,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${fileName.replace(NOT_PLAIN, '_')}"; filename*=UTF-8''${encoded}`;
}
