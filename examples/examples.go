// Package examples holds the agents, the scripts of their scripted models and the module that the demo repairs.
//
// Promises: Files is all that the demo needs, so the program runs it outside of this source tree. The module is below
// testdata, because its tests fail on purpose, and has no go.mod, because files of another module cannot be embedded:
// the demo writes one.
package examples

import "embed"

// Files has agents/*.prompt, scripts/*.yaml and testdata/invoice/*.go.
//
//go:embed agents/*.prompt scripts/*.yaml testdata/invoice/*.go
var Files embed.FS
