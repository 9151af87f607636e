package part

import (
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/kernel"
)

// Meant is the beginning of a hint: the nearest known word, if one is near.
func Meant(got string, known []string) string {
	if w := didyoumean.Word(got, known); w != "" {
		return "did you mean " + w + "? "
	}
	return ""
}

// OrUnknown is who asked for something, as far as is known.
func OrUnknown(by string) string {
	if by == "" {
		return "unknown"
	}
	return by
}

// Named says in a refusal which run it is about.
func Named(runID string, r *kernel.Refusal) *kernel.Refusal {
	r.Run = runID
	return r
}
