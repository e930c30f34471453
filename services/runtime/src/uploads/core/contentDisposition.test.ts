/** Tests that all clients get the file name of a download, for all file names. */
import { expect, test } from 'vitest';
import { attachmentNamed } from './contentDisposition.ts';

test.each([
  ['game.log', `attachment; filename="game.log"; filename*=UTF-8''game.log`],
  ['a b.png', `attachment; filename="a b.png"; filename*=UTF-8''a%20b.png`],
  ['"; x=".png', `attachment; filename="_; x=_.png"; filename*=UTF-8''%22%3B%20x%3D%22.png`],
  ['50%.txt', `attachment; filename="50_.txt"; filename*=UTF-8''50%25.txt`],
  ["it's (1)*.txt", `attachment; filename="it's (1)*.txt"; filename*=UTF-8''it%27s%20%281%29%2A.txt`],
  ['写真.png', `attachment; filename="__.png"; filename*=UTF-8''%E5%86%99%E7%9C%9F.png`],
  ['a\r\nX: y', `attachment; filename="a__X: y"; filename*=UTF-8''a%0D%0AX%3A%20y`],
])('%j is a download with that name', (fileName, header) => {
  expect(attachmentNamed(fileName)).toBe(header);
});
