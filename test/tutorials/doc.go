// Package tutorials does what the pages in docs/tutorials tell a reader to do, and compares what the programs print
// with what the pages show.
//
// Promises: a page is carried out from its first command to its last in an empty home, by shells, with the programs of
// this commit; each line that the page shows must be printed, in its order. A page has
//
//   - ```console blocks: lines with "$ " are commands, a line that ends in a backslash goes on in the next; the lines
//     after it are its output. "..." in a line stands for any text, "..." alone for any lines. The command must
//     succeed.
//   - ```console NAME blocks: the same in another terminal, whose last command, or the one before ^C, goes on running.
//   - ```LANGUAGE FILE blocks: files that the reader writes.
//   - <!-- answers FILE -->: what the model answers; the page is carried out without a real one.
//   - the command ^C: what runs in that terminal is interrupted.
//   - <!-- module -->: the folder is a Go module that uses this one.
//   - <!-- slow -->: carried out by make tutorials only, like all others there.
package tutorials
