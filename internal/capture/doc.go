// Package capture finds what tool calls made and changed in a workspace, and stores it.
//
// Promises: it looks at the workspace through a directory handle and follows no link, opens nothing but regular files
// and reads none that is larger than its limit. A file that changes while it is read is not stored; the next look takes
// it. What is found is put before it is said, by content: a crash between the two leaves at most an object that
// expires, and the next look puts nothing twice. What cannot be stored is left out with the reason, and the call goes
// on. The list of what a run began with is kept outside of the workspace, so that another process of the same machine
// goes on with it. A workspace gets what the run made on other machines, and what earlier runs of its workflow left: no
// file is written over.
package capture
