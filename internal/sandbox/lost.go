package sandbox

import "errors"

// ErrLost means that what carries out commands, an engine or a machine elsewhere, was lost in the middle of one: nobody
// knows how far it came.
var ErrLost = errors.New("the sandbox was lost in the middle of a command")
