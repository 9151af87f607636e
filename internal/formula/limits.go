package formula

import "github.com/inspan/inspan/pkg/events"

// Limits of what is read and made.
const (
	// MaxFile bounds one file, in bytes; MaxFiles how many one formula is made of, MaxInherit how deep they extend each
	// other.
	MaxFile    = 1 << 20
	MaxFiles   = 32
	MaxInherit = 8
	// MaxSteps bounds the steps of a plan, after expansions.
	MaxSteps = 1000
	// MaxNeeds bounds what one step needs, MaxText a text in a file, in bytes.
	MaxNeeds = MaxSteps
	MaxText  = events.MaxDescription
	// MaxVars bounds the variables of a formula, MaxVarBytes all values together, in bytes.
	MaxVars     = events.MaxVariables
	MaxVarBytes = events.MaxTask
	// MaxPlan bounds the plan as it is sent, in bytes: it is part of one event.
	MaxPlan = events.MaxEvent - 16<<10
	// MaxFaults is how many faults of a formula are listed; there may be more.
	MaxFaults = 20
	// maxNodes and maxDepth bound the values of a file and how deep they are, maxKeys the keys of one table.
	maxNodes = 50_000
	maxDepth = 32
	maxKeys  = 1000
	// maxKey and maxName bound keys and names, in bytes; maxShown a text that is quoted in a message.
	maxKey   = 120
	maxName  = 64
	maxShown = 80
)
